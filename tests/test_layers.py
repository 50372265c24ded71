"""Who may import whom. The arrows point one way only."""

from __future__ import annotations

import ast
import sys
from collections import Counter

import pytest

from tests.support import REPO

PACKAGE = REPO / "mcp_memory"
#: What lies beneath everything that does something.
BASE = {"errors", "lexicon", "domain", "capture"}
#: What each layer may import of this package. The ports are the modules by which rooms meet; `app` alone wires them.
ALLOWED = {
    "errors": set(),
    "lexicon": set(),
    "capture": {"capture"},
    "domain": BASE,
    "setting_kinds": BASE,
    "config": BASE | {"setting_kinds"},
    "sample": {"sample"},
    "ports": BASE | {"ports"},
    "pipeline": BASE | {"ports", "pipeline"},
    "times": BASE | {"times"},
    "search": BASE | {"ports", "times", "search"},
    "navigate": BASE | {"ports", "times", "search", "navigate"},
    "clients": BASE | {"ports", "clients"},
    "install": BASE | {"ports", "install"},
    "summaries": BASE | {"ports", "summaries"},
    "models": BASE | {"ports", "models", "summaries"},
    "store": BASE | {"ports", "store"},
    "team": BASE | {"setting_kinds", "config", "ports", "team"},
}
ALLOWED["app"] = {*ALLOWED} - {"sample"}
ALLOWED["surfaces"] = {*ALLOWED, "surfaces"}
PORTS = ("port", "inbox_port", "sharing_port", "team_port")
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem in ALLOWED)


def imports(path: str) -> set[str]:
    tree = ast.parse((PACKAGE / path).read_text())
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names if node.module == "mcp_memory")
    return found


@pytest.mark.parametrize("path", [str(path.relative_to(PACKAGE)) for path in FILES])
def test_a_module_imports_only_what_its_layer_may(path: str) -> None:
    names = [name.split(".") for name in imports(path) if name.startswith("mcp_memory.")]
    ours = {"ports" if len(name) > 2 and name[2] in PORTS else name[1] for name in names}
    layer = "ports" if path.endswith(tuple(f"/{port}.py" for port in PORTS)) else path.split("/")[0].removesuffix(".py")
    assert ours - {"__version__"} <= ALLOWED[layer]


@pytest.mark.parametrize(
    "path", [*(REPO / "hooks").glob("*.py"), *(PACKAGE / "capture").rglob("*.py")], ids=lambda path: str(path.name)
)
def test_the_hook_needs_nothing_but_the_standard_library(path: object) -> None:
    names = {name.split(".")[0] for name in imports(str(path))}
    assert names <= sys.stdlib_module_names | {"mcp_memory"}


#: Who may speak to SQLite: its engine, and the hook's own inbox.
SQLITE = ("store/sqlite/", "capture/inbox.py")
#: Who may use modules of the engine, and which.
KNOWN_ENGINE = {
    "app.py": {"store", "fts5", "inbox", "keys"},
    "surfaces/doctor.py": {"diagnosis", "repair"},
    "surfaces/forget_proof.py": {"scan"},
    "surfaces/move_command.py": {"left_behind", "tables"},
    "surfaces/forget_copies.py": {"left_behind"},
}


@pytest.mark.parametrize("path", [str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")])
def test_only_the_engine_knows_sqlite(path: str) -> None:
    if not path.startswith(SQLITE):
        assert not {name.split(".")[0] for name in imports(path)} & {"sqlite3", "aiosqlite"}
        # The engine is opened in one place; elsewhere it is asked through the port. Looking at a file that cannot be
        # opened is an exception, and copying all of a memory, whatever it is, to another engine.
        engine = {name.split(".")[3] for name in imports(path) if name.startswith("mcp_memory.store.sqlite.")}
        assert engine <= KNOWN_ENGINE.get(path, set())


def test_no_two_classes_or_modules_share_a_name() -> None:
    """One meaning for each name; engines and ports may share names of files."""
    modules = [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
    places = {
        (node.name.lstrip("_"), path)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    classes = Counter(name for name, _ in places)
    assert [name for name, count in classes.items() if count > 1] == []
    files = Counter(path.name for path in modules if path.parent.parent != PACKAGE / "store")
    assert {name for name, count in files.items() if count > 1} <= {"port.py"}
