"""Clients run the hook with whatever Python they find, so it asks for little."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.capture.conftest import Machine

REPO = Path(__file__).parents[2]
SOURCES = [REPO / "hooks" / "capture.py", REPO / "mcp_memory" / "__init__.py"]
SOURCES += sorted((REPO / "mcp_memory" / "capture").glob("*.py"))


def imported(source: Path) -> set[str]:
    """The names of the modules that a file imports anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add(node.module or "")
    return found


def python39() -> str:
    """A Python 3.9 that runs; a version manager's stand-in may be on the path and refuse."""
    places = [*map(str, Path.home().glob(".pyenv/versions/3.9*/bin/python3.9")), shutil.which("python3.9") or ""]
    for place in filter(None, places):
        if (
            subprocess.run([place, "-c", "import sqlite3"], capture_output=True, timeout=60, check=False).returncode
            == 0
        ):
            return place
    return ""


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_source_is_python_3_9_and_needs_the_standard_library_only(source: Path) -> None:
    ast.parse(source.read_text(encoding="utf-8"), feature_version=(3, 9))
    for name in imported(source):
        ours = name.startswith("mcp_memory.capture.")
        assert ours or name.partition(".")[0] in sys.stdlib_module_names, name


def test_hook_does_not_load_what_is_slow() -> None:
    code = (
        f"import sys; sys.path.append({str(REPO)!r})\n"
        "import json, os, sqlite3; usual = set(sys.modules)\n"
        "import mcp_memory.capture.hook; print(*sorted(set(sys.modules) - usual))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, timeout=60, check=True)
    extra = [name for name in done.stdout.decode().split() if not name.startswith("mcp_memory")]
    assert extra in ([], ["__future__"])


def test_runs_under_python_3_9(machine: Machine) -> None:
    python = python39()
    if not python:
        pytest.skip("there is no Python 3.9")
    machine.make_database()
    machine.say("Before.")
    text = "password=hunter2 <private>x</private> https://a:hunter2@b.example Authorization: Bearer hunter2-hunter2"
    done = machine.hook(machine.payload("SessionStart", source="startup", text=text), python=python)
    assert (b"Before." in done.stdout, done.stderr) == (True, b"")
    assert len(machine.rows()) == 1
    assert b"hunter2" not in machine.disk()
