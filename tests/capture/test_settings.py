"""What the hook obeys, however it is written: with a TOML parser, without one, and where the file is broken."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mcp_memory import config
from mcp_memory.capture import settings
from mcp_memory.capture.settings import home_dir, plain_lines, private_dir, read_flat, read_settings
from mcp_memory.errors import SettingsError
from tests.support import REPO

OFF = [
    "[capture]\nenabled = false\n",
    "[ capture ] # on this machine\nenabled=false # for now\n",
    "capture = { enabled = false }\n",
    "capture = {max_event_bytes = 5000, enabled = false}\n",
    "capture.enabled = false\n",
    "capture . enabled = false\n",
    '"capture"."enabled" = false\n',
    "'capture'.enabled = false\n",
    '["capture"]\n"enabled" = false\n',
    "[capture]\n'enabled' = false\n",
    '[capture]\nenabled = "off"\n',
    "[capture]\nenabled = 'no'\n",
    '[capture]\nenabled = """false"""\n',
    '[capture]\n"en\\u0061bled" = false\n',
    '["c\\u0061pture"]\nenabled = false\n',
    '[summarizer]\nprices = """\n[capture]\nenabled = true\n"""\n[capture]\nenabled = false\n',
    '[summarizer]\nmodels = [\n  "a", # one\n  "b",\n]\n[capture]\nenabled = false\n',
    'capture = { "en\\u0061bled" = false }\n',
    "\ufeff[capture]\r\nenabled = false\r\n",
]
ON = [
    "",
    "# [capture]\n# enabled = false\n",
    "[capture]\nenabled = true\n",
    "capture = { enabled = true }\n",
    "brief = { enabled = false }\n",
    "brief.enabled = false\n",
    "[brief]\nenabled = false\n[compaction]\nenabled = false\n",
    "[compaction]\nenabled = false\ncontext_lengths = { some-model = 8192 }\n",
    '[summarizer]\nprices = """\n[capture]\nenabled = false\n"""\n',
    "[capture]\nmax_event_bytes = 0x2000\n",
]
#: Of these no one can know what they say, and some say that nothing is to be captured.
BROKEN_OFF = [
    "[capture\nenabled = false\n",
    "[capture]\nenabled = flase\n",
    "[capture]\nenabled =\n",
    "[capture]\nenabled = false\n[summarizer]\nkind = anthropic\n",
    "capture = { enabled = false\n",
    "capture = { enabled: false }\n",
    "[capture]\nenabled = true\nenabled = no\n",
    "[[capture]]\nenabled = false\n",
    "capture = false\n",
    "enabled = false\n",
    "[capture]\nenabled = { value = false }\n",
    '[capture]\nenabled = "perhaps"\n',
    "[capture]\nenabled = 0\n",
    "﻿﻿[ca pture]\nenabled = false\n",
]
BROKEN_ON = [
    "[summarizer]\nkind = anthropic\n",
    "[capture]\nenabled = true\n[summarizer]\nkind = anthropic\n",
    "[summarizer]\nkind = anthropic\n[brief]\nenabled = false\n",
    "??? what is this\n",
]
#: Plays a Python without a TOML parser.
OLD = """
import runpy, sys
sys.modules["tomllib"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def write(file: Path, text: str) -> None:
    file.write_bytes(text.encode())


def is_on(file: Path) -> bool:
    return read_settings(str(file), {}).enabled


def without_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tomllib", None)


@pytest.mark.parametrize(("text", "on"), [*((text, False) for text in OFF), *((text, True) for text in ON)])
def test_every_spelling_is_obeyed_as_the_program_reads_it(file: Path, text: str, on: bool) -> None:
    write(file, text)
    assert is_on(file) is on
    if "prices" not in text:
        assert config.load({"MCP_MEMORY_HOME": str(file.parent)}).capture.enabled is on


@pytest.mark.parametrize(("text", "on"), [*((text, False) for text in OFF), *((text, True) for text in ON)])
def test_a_python_without_a_parser_reads_what_the_program_wrote_down(
    file: Path, text: str, on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(file, text)
    settings.keep(str(file), file.read_text("utf-8-sig"), tomllib.loads(file.read_text("utf-8-sig")))
    without_parser(monkeypatch)
    assert is_on(file) is on


@pytest.mark.parametrize("text", OFF)
def test_without_a_parser_a_file_that_no_command_has_read_yet_is_never_taken_for_a_yes(
    file: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(file, "capture = { enabled = true }\n")
    config.load({"MCP_MEMORY_HOME": str(file.parent)})
    write(file, text)
    without_parser(monkeypatch)
    assert not is_on(file)


@pytest.mark.parametrize(
    ("text", "on"), [*((text, False) for text in BROKEN_OFF), *((text, True) for text in BROKEN_ON)]
)
@pytest.mark.parametrize("parser", [True, False], ids=["parser", "none"])
def test_of_a_broken_file_capture_is_on_only_if_nothing_may_say_no(
    file: Path, text: str, on: bool, parser: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(file, text)
    with pytest.raises(SettingsError):
        config.load({"MCP_MEMORY_HOME": str(file.parent)})
    if not parser:
        without_parser(monkeypatch)
    assert is_on(file) is on


def test_plain_lines_are_read_as_a_parser_reads_them() -> None:
    for text in (*OFF, *ON, *BROKEN_OFF, *BROKEN_ON):
        found = plain_lines(text.removeprefix("\ufeff"))
        if found is not None:
            assert found == settings._flattened(tomllib.loads(text.removeprefix("\ufeff")))


@pytest.mark.parametrize(
    "text",
    [
        "k = 01",
        "k = 1__0",
        "k = _1",
        "k = 1_",
        "k = '''x'''",
        'k = "a\\n"',
        "k = tru",
        "k =",
        "k",
        "[a]\n[a]",
        "k=1\nk=2",
    ]
    + ["[a] x", "[a.b]", "[]", "a.b = 1", "é = 1", 'k = "a" b', "k = +1", "k = 1.5", "k = [1]", "k = '\x01'", "= 1"],
)
def test_whatever_is_not_plain_is_left_to_a_parser(text: str) -> None:
    assert plain_lines(text) is None


def test_a_file_in_another_encoding_is_not_taken_for_a_yes(file: Path) -> None:
    file.write_bytes("[capture]\nenabled = false\n".encode("utf-16"))
    assert not is_on(file)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="a file that its owner cannot read")
def test_a_file_that_cannot_be_opened_is_not_taken_for_a_yes(file: Path) -> None:
    write(file, "[brief]\nenabled = true\n")
    file.chmod(0)
    assert not is_on(file)


def test_the_length_limit_is_read_however_it_is_written(file: Path) -> None:
    for text in ("[capture]\nmax_event_bytes = 5_000\n", "capture = { max_event_bytes = 5000 }\n",
                 "capture.max_event_bytes = 0x1388\n", "[capture]\nmax_event_bytes = ' 5000'\n"):  # fmt: skip
        write(file, text)
        assert read_settings(str(file), {}).max_event_bytes == 5_000
        assert config.load({"MCP_MEMORY_HOME": str(file.parent)}).capture.max_event_bytes == 5_000


@pytest.mark.parametrize("text", ["enabled = false\n", '"enabled" = false\n', "enabled = 'off'\n", "enabled = fals\n"])
def test_a_project_opts_out_in_any_spelling(tmp_path: Path, text: str) -> None:
    (tmp_path / ".mcp-memory.toml").write_text(text)
    assert settings.is_off(read_flat(str(tmp_path / ".mcp-memory.toml"))["enabled"])


@pytest.mark.parametrize("old", [False, True], ids=["parser", "none"])
@pytest.mark.parametrize(
    "text", ["capture = { enabled = false }\n", "capture.enabled = false\n", "[capture\nenabled = no"]
)
def test_the_hook_obeys_a_file_that_was_changed_while_no_server_ran(tmp_path: Path, text: str, old: bool) -> None:
    home = tmp_path / "home"
    home.mkdir()
    hook = str(REPO / "hooks" / "capture.py")
    command = [sys.executable, "-I", "-S", *(("-c", OLD, hook) if old else (hook,))]
    prompt = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "s",
        "prompt": "Mend the kite.",
        "cwd": str(tmp_path),
    }

    def fire() -> int:
        env = {"PATH": os.environ["PATH"], "MCP_MEMORY_HOME": str(home)}
        done = subprocess.run(command, input=json.dumps(prompt).encode(), env=env, capture_output=True, check=True)
        assert (done.stdout, done.stderr) == (b"", b"")
        return len(list((home / "spool").iterdir())) if (home / "spool").exists() else 0

    assert fire() == 1
    (home / "config.toml").write_text(text)
    assert fire() == 1
    (home / "config.toml").unlink()
    assert fire() == 2


def test_home_is_chosen_by_the_environment(tmp_path: Path) -> None:
    assert home_dir({"MCP_MEMORY_HOME": str(tmp_path / "x")}) == str(tmp_path / "x")
    assert home_dir({"MCP_MEMORY_HOME": "~/x"}) == os.path.expanduser("~/x")


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
    assert home_dir(env) == os.path.join(os.path.expanduser(expected), "mcp-memory")


@pytest.mark.skipif(sys.platform == "win32", reason="modes are those of POSIX")
def test_private_directory_is_for_its_owner_and_an_existing_one_keeps_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Path(private_dir(str(tmp_path / "a" / "b")))
    monkeypatch.chdir(tmp_path)
    assert Path(private_dir("relative")).is_dir()
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    made.chmod(0o750)
    private_dir(str(made))
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
