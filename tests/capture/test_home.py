from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from mcp_memory.capture import home
from mcp_memory.capture.settings import read_settings


def test_home_is_chosen_by_the_environment(tmp_path: Path) -> None:
    assert home.home_dir({"MCP_MEMORY_HOME": str(tmp_path / "x")}) == str(tmp_path / "x")
    assert home.home_dir({"MCP_MEMORY_HOME": "~/x"}) == os.path.expanduser("~/x")


@pytest.mark.parametrize(
    ("platform", "env", "expected"),
    [
        ("linux", {}, "~/.local/share"),
        ("linux", {"XDG_DATA_HOME": "/data"}, "/data"),
        ("linux", {"XDG_DATA_HOME": "relative"}, "~/.local/share"),
        ("darwin", {"XDG_DATA_HOME": "/data"}, "~/Library/Application Support"),
        ("win32", {"LOCALAPPDATA": "C:\\Users\\ada\\AppData\\Local"}, "C:\\Users\\ada\\AppData\\Local"),
    ],
)
def test_home_is_where_the_platform_keeps_user_data(
    monkeypatch: pytest.MonkeyPatch, platform: str, env: dict[str, str], expected: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert home.home_dir(env) == os.path.join(os.path.expanduser(expected), "mcp-memory")


@pytest.mark.skipif(sys.platform == "win32", reason="modes are those of POSIX")
def test_private_directory_is_for_its_owner_and_an_existing_one_keeps_its_mode(tmp_path: Path) -> None:
    made = Path(home.private_dir(str(tmp_path / "a" / "b")))
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    made.chmod(0o750)
    home.private_dir(str(made))
    assert stat.S_IMODE(made.stat().st_mode) == 0o750


@pytest.mark.parametrize("bad", ["", "much", "-5", "1.5", "٣"])
def test_bad_length_limit_gives_the_default(tmp_path: Path, bad: str) -> None:
    env = {"MCP_MEMORY_CAPTURE_MAX_EVENT_BYTES": bad}
    assert read_settings(str(tmp_path / "none.toml"), env).max_event_bytes == 65_536


def test_environment_wins_over_the_settings_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[capture]\nenabled = false\nmax_event_bytes = 5000\n")
    assert not read_settings(str(path), {}).enabled
    settings = read_settings(str(path), {"MCP_MEMORY_CAPTURE_ENABLED": "true"})
    assert (settings.enabled, settings.max_event_bytes) == (True, 5000)
    assert not read_settings(str(path), {"MCP_MEMORY_CAPTURE_ENABLED": " "}).enabled  # it says nothing
