"""Every manifest from one source: the version of the package and the table of clients.

python -m release.manifests           writes them
python -m release.manifests --check   exits 1 if one is out of date
"""

from __future__ import annotations

import base64
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from mcp_memory import __version__
from mcp_memory.clients import CLIENTS

REPO = Path(__file__).parent.parent
NAME = "mcp-memory"
#: The name on the package index, where `mcp-memory` is another's. Nothing fetches it before it is published.
DISTRIBUTION = "mcp-memory-toc"
PUBLISHED = False
REGISTRY_NAME = "io.github.mcp-memory/mcp-memory"
AUTHOR = {"name": "the mcp-memory authors"}
SHORT = "Long-term memory for coding agents: browse past sessions, search them, quote the exact words"
SERVER = {"command": NAME, "args": ["serve"]}
PLUGIN_HOOK = 'python3 -I -S "${CLAUDE_PLUGIN_ROOT}/hooks/capture.py" --client claude-code'
EXAMPLE_HOOK = "python3 -I -S /path/to/mcp-memory/hooks/capture.py --client claude-code"


def documents() -> dict[str, Any]:
    """Path in the repository → what the JSON file there holds."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    return {
        ".claude-plugin/plugin.json": _plugin(project),
        ".claude-plugin/marketplace.json": _marketplace(project),
        ".mcp.json": {"mcpServers": {"memory": {"command": "sh", "args": ["${CLAUDE_PLUGIN_ROOT}/hooks/serve.sh"]}}},
        "hooks/hooks.json": {"description": "Captures every session into memory", "hooks": _hooks(PLUGIN_HOOK)},
        "claude_config.example.json": {"mcpServers": {"memory": SERVER}, "hooks": _hooks(EXAMPLE_HOOK)},
        "manifest.json": _bundle(project),
        "server.json": registry(PUBLISHED),
    }


def cursor_link() -> str:
    """The link that asks Cursor to add the server."""
    config = base64.b64encode(json.dumps(SERVER).encode()).decode()
    return f"cursor://anysphere.cursor-deeplink/mcp/install?name=memory&config={config}"


def _hooks(command: str) -> dict[str, Any]:
    setup = CLIENTS["claude-code"].registered
    return {
        event: [
            {
                "matcher": "",
                "hooks": [{"type": "command", "command": command, "timeout": setup.shorter.get(event, setup.timeout)}],
            }
        ]
        for event in setup.events
    }


def _plugin(project: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": NAME,
        "version": __version__,
        "description": project["description"],
        "author": AUTHOR,
        "license": project["license"],
        "keywords": project["keywords"],
    }


def _marketplace(project: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": NAME,
        "owner": AUTHOR,
        "metadata": {"description": project["description"], "version": __version__},
        "plugins": [{"name": NAME, "source": "./", "description": project["description"], "version": __version__}],
    }


def _bundle(project: dict[str, Any]) -> dict[str, Any]:
    return {
        "manifest_version": "0.4",
        "name": NAME,
        "display_name": "Memory",
        "version": __version__,
        "description": project["description"],
        "author": AUTHOR,
        "license": project["license"],
        "keywords": project["keywords"],
        "server": {
            "type": "uv",
            "entry_point": "mcp_memory/__main__.py",
            "mcp_config": {"command": "uv", "args": ["run", "--directory", "${__dirname}", NAME, "serve"]},
        },
        "tools_generated": True,
        "prompts_generated": True,
        "compatibility": {
            "platforms": ["darwin", "linux", "win32"],
            "runtimes": {"python": project["requires-python"]},
        },
    }


def registry(published: bool) -> dict[str, Any]:
    """The entry of the server in a registry. Without a package in it, it only says what the server is."""
    entry = {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": REGISTRY_NAME,
        "title": "Memory",
        "description": SHORT,
        "version": __version__,
    }
    package = {
        "registryType": "pypi",
        "identifier": DISTRIBUTION,
        "version": __version__,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [{"type": "positional", "value": "serve"}],
    }
    return entry | ({"packages": [package]} if published else {})


def text_of(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def outdated() -> list[str]:
    return [
        path
        for path, document in documents().items()
        if not (REPO / path).is_file() or (REPO / path).read_text("utf-8") != text_of(document)
    ]


def main(arguments: list[str]) -> int:
    late = outdated()
    if "--check" in arguments:
        sys.stdout.write("".join(f"out of date: {path}\n" for path in late))
        return 1 if late else 0
    for path in late:
        (REPO / path).write_text(text_of(documents()[path]), "utf-8")
        sys.stdout.write(f"wrote {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
