"""Who may import whom. The arrows point one way only."""

from __future__ import annotations

import ast
import sys

import pytest

from tests.support import REPO

PACKAGE = REPO / "mcp_memory"
LOWER = (
    "errors lexicon domain config capture pipeline times search navigate clients store summaries models install"
).split()
#: What each layer may import of this package.
ALLOWED = {
    "errors": set(),
    "capture": {"capture"},
    "lexicon": set(),
    "domain": {"errors", "lexicon", "domain", "capture"},
    "config": {"errors", "lexicon", "domain", "capture"},
    "sample": {"sample"},
    "times": {"errors", "lexicon", "domain", "times"},
    "pipeline": {"errors", "lexicon", "domain", "store", "clients", "models", "capture", "pipeline"},
    "search": {"errors", "lexicon", "domain", "store", "times", "search"},
    "navigate": {"errors", "lexicon", "domain", "store", "models", "times", "search", "navigate"},
    **dict.fromkeys(
        ("clients", "store", "summaries", "models", "install"),
        {"errors", "lexicon", "domain", "capture", "clients", "store", "summaries", "models", "install"},
    ),
    "app": {*LOWER},
    "surfaces": {*LOWER, "app", "surfaces", "sample"},
}
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
    layer = path.split("/")[0].removesuffix(".py")
    ours = {name.split(".")[1] for name in imports(path) if name.startswith("mcp_memory.")}
    assert ours - {"__version__"} <= ALLOWED[layer]


@pytest.mark.parametrize(
    "path", [*(REPO / "hooks").glob("*.py"), *(PACKAGE / "capture").rglob("*.py")], ids=lambda path: str(path.name)
)
def test_the_hook_needs_nothing_but_the_standard_library(path: object) -> None:
    names = {name.split(".")[0] for name in imports(str(path))}
    assert names <= sys.stdlib_module_names | {"mcp_memory"}


#: Who may speak to SQLite: its engine, and the hook's own inbox.
SQLITE = ("store/sqlite/", "capture/inbox.py")


@pytest.mark.parametrize("path", [str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")])
def test_only_the_engine_knows_sqlite(path: str) -> None:
    if not path.startswith(SQLITE):
        assert not {name.split(".")[0] for name in imports(path)} & {"sqlite3", "aiosqlite"}
        # The engine is opened in one place; elsewhere it is asked through the port. Looking at a file that cannot be
        # opened is the exception.
        engine = {name.split(".")[3] for name in imports(path) if name.startswith("mcp_memory.store.sqlite.")}
        assert engine <= {"app.py": {"store", "fts5", "inbox"}, "surfaces/doctor.py": {"diagnosis", "repair"}}.get(
            path, set()
        )


@pytest.mark.parametrize("folder", ["mcp_memory", "tests"])
def test_modules_stay_small(folder: str) -> None:
    long = {str(path.relative_to(REPO)): len(path.read_text().splitlines()) for path in (REPO / folder).rglob("*.py")}
    assert not {path: lines for path, lines in long.items() if lines > 450}
