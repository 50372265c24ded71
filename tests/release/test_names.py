"""Nothing here makes a user fetch this package by name: one name is another's, the other is not published."""

from __future__ import annotations

import ast
import base64
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from release.manifests import PUBLISHED
from tests.support import REPO

_PAGES = ("*.md", "docs/**/*", "commands/**/*", "skills/**/*", "hooks/*", "release/*", ".claude-plugin/*", ".ci/*")
_FILES = ("Makefile", "pyproject.toml", "server.json", "manifest.json", ".mcp.json", "claude_config.example.json")
_INSTALLER = re.compile(
    r"\b(?:pip3?|pipx|uv|poetry|pdm|rye|conda|mamba)\s+(?:(?:pip|tool)\s+)?(?:install|upgrade|run|add|inject|download|sync)\b"
    r"|\buvx\b|\bpip-run\b"
)
_OURS = re.compile(r"mcp[-_]memory(?:[-_]toc)?(?:\[[^\]]*\])?(?:(?:[=<>~!]=?|@).*)?", re.IGNORECASE)
#: After one of these the name is that of a script, and what brings it is the place given.
_PLACED = re.compile(r"--(?:from|directory|project|editable|with-editable)[ =]+[\"']?(?:[.$/~]|\$\{)")


def fetched(text: str) -> Iterator[str]:
    """The parts of a text that tell someone to fetch this package by its name."""
    for line in re.split(r"[\n;|&`#]", text):
        for call in _INSTALLER.finditer(line):
            rest = line[call.end() :]
            words = [word.strip("\"'(),.:") for word in rest.split()]
            if not _PLACED.search(rest) and any(_OURS.fullmatch(word) for word in words):
                yield line.strip()
    yield from re.findall(r"mcp[-_]memory(?:-toc)?\[\S*\]", text)


def _strings(source: str) -> Iterator[str]:
    """Every string of a module; what an f-string puts in is left out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _commands(value: Any) -> Iterator[str]:
    """Every command with its arguments, and every package that a registry is told of."""
    if isinstance(value, dict):
        if "command" in value:
            yield " ".join([str(value["command"]), *map(str, value.get("args", []))])
        if "registryType" in value:
            yield f"uvx {value['identifier']}"
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _commands(part)


def _told(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        yield from _strings(text)
        return
    yield text
    if path.suffix in (".json", ".toml"):
        yield from _commands(json.loads(text) if path.suffix == ".json" else tomllib.loads(text))
    for block in re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from _commands(tomllib.loads(block))
    for entry in re.findall(r'^\{"mcpServers".*\}$', text, re.MULTILINE):
        yield from _commands(json.loads(entry))
    for config in re.findall(r"[?&]config=([A-Za-z0-9+/=%]+)", text):
        yield from _commands(json.loads(base64.b64decode(config)))


def _files() -> list[Path]:
    named = [REPO / name for name in _FILES]
    found = [path for pattern in _PAGES for path in REPO.glob(pattern)]
    found += (REPO / "mcp_memory").rglob("*.py")
    found = [path for path in found if "__pycache__" not in path.parts and path.suffix != ".png"]
    return sorted({path for path in (*named, *found) if path.is_file()})


@pytest.mark.parametrize(
    "text",
    [
        "pip install mcp-memory",
        "Run 'pip install mcp-memory', or",
        "pip install --upgrade mcp-memory",
        "pip install 'mcp-memory[openai]'",
        "or uv tool install mcp-memory, pipx install mcp_memory",
        "uvx mcp-memory serve",
        "uvx mcp-memory@latest serve",
        "uv tool run mcp-memory serve",
        "pipx run mcp-memory==0.1.0",
        "uv add mcp-memory-toc",
        "python -m pip install mcp-memory-toc>=0.1",
        "needs mcp-memory[whoosh]",
        *_commands({"mcpServers": {"memory": {"command": "uvx", "args": ["mcp-memory", "serve"]}}}),
        *_commands({"packages": [{"registryType": "pypi", "identifier": "mcp-memory"}]}),
    ],
)
def test_an_instruction_that_fetches_by_name_is_noticed(text: str) -> None:
    assert list(fetched(text))


@pytest.mark.parametrize(
    "text",
    [
        "mcp-memory install claude-code",
        "uv tool install .",
        "uv tool install '.[openai]'; mcp-memory doctor",
        "pipx install .   # then: mcp-memory install codex",
        "pip install dist/mcp_memory_toc-0.1.0-py3-none-any.whl",
        'uv tool run --quiet --from "$root" mcp-memory-toc serve',
        "uv run --directory ${__dirname} mcp-memory serve",
        "claude mcp add --scope user memory -- mcp-memory serve",
        "claude plugin install mcp-memory@mcp-memory",
        "pip uninstall mcp-memory-toc",
    ],
)
def test_an_instruction_that_installs_from_a_place_is_none(text: str) -> None:
    assert not list(fetched(text))


def test_no_page_message_or_manifest_fetches_by_name() -> None:
    assert not PUBLISHED, "Once the package is published, its own name may be fetched: allow it here."
    files = _files()
    names = {path.name for path in files}
    assert {"README.md", "INDEX.md", "server.json", "serve.sh", "app.py", "SKILL.md", "plugin.json"} <= names
    found = [f"{path.relative_to(REPO)}: {line}" for path in files for text in _told(path) for line in fetched(text)]
    assert not found, "\n".join(found)
