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
SOURCES += sorted((REPO / "mcp_memory" / "capture").rglob("*.py"))


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


def python_of(version: str) -> str:
    """A Python of this version that runs; a version manager's stand-in may be on the path and refuse."""
    name = f"python{version}"
    places = [*map(str, Path.home().glob(f".pyenv/versions/{version}*/bin/{name}")), shutil.which(name) or ""]
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


@pytest.mark.parametrize("version", ["3.9", "3.13"])
def test_runs_under_the_oldest_and_a_new_python(machine: Machine, version: str) -> None:
    python = python_of(version)
    if not python:
        pytest.skip(f"there is no Python {version}")
    machine.make_database()
    machine.say("Before.")
    text = "password=hunter2 <private>x</private> https://a:hunter2@b.example Authorization: Bearer hunter2-hunter2"
    table = "user,password\nme,hunter2\n\nlocalhost:5432:app:me:hunter2\nкакой пароль: hunter2\npass\u200bword: hunter2"
    done = machine.hook(machine.payload("SessionStart", source="startup", text=text, table=table), python=python)
    assert (b"Before." in done.stdout, done.stderr) == (True, b"")
    assert len(machine.rows()) == 1
    assert b"hunter2" not in machine.disk()
