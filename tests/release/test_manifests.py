"""What is published beside the package agrees with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mcp_memory import __version__
from mcp_memory.clients import CLIENTS
from release.manifests import cursor_link, documents, outdated, registry
from tests.support import REPO


def test_every_manifest_is_up_to_date() -> None:
    assert outdated() == [], "run: python -m release.manifests"


def test_every_version_is_the_packages() -> None:
    found = documents()
    assert found[".claude-plugin/plugin.json"]["version"] == __version__
    assert found[".claude-plugin/marketplace.json"]["plugins"][0]["version"] == __version__
    assert found["manifest.json"]["version"] == __version__
    assert found["server.json"]["version"] == __version__


def test_a_registry_is_told_of_a_package_only_once_it_is_published() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    assert "packages" not in registry(published=False)
    (package,) = registry(published=True)["packages"]
    assert (package["identifier"], package["version"]) == (project["name"], __version__)
    assert package["identifier"] in project["scripts"], "uvx starts the script of the package's name"


def test_the_plugin_hooks_every_event_that_install_does() -> None:
    hooks = json.loads((REPO / "hooks" / "hooks.json").read_text())["hooks"]
    assert set(hooks) == set(CLIENTS["claude-code"].registered.events)
    for groups in hooks.values():
        (handler,) = groups[0]["hooks"]
        assert "${CLAUDE_PLUGIN_ROOT}/hooks/capture.py" in handler["command"]


def test_skill_and_commands_have_a_description() -> None:
    pages = [REPO / "skills" / "memory" / "SKILL.md", *(REPO / "commands").glob("*.md")]
    assert {page.stem for page in pages} == {"SKILL", "recall", "catch-up"}
    for page in pages:
        head = page.read_text().split("---")[1]
        assert "description: " in head


def test_the_readme_shows_the_snippets_as_they_are() -> None:
    readme = (REPO / "README.md").read_text()
    assert cursor_link() in readme


@pytest.mark.skipif(sys.platform == "win32", reason="needs sh")
def test_without_program_and_uv_the_plugin_says_what_is_missing(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "dirname"):
        found = next(Path(folder) / name for folder in os.environ["PATH"].split(":") if (Path(folder) / name).exists())
        (tools / name).symlink_to(found)
    done = subprocess.run(
        ["sh", str(REPO / "hooks" / "serve.sh")], env={"PATH": str(tools)}, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 1
    assert f"Install uv, or run: pip install '{REPO}'" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs sh")
def test_the_plugin_never_starts_another_program_of_the_first_name(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, says in (("mcp-memory", "a stranger"), ("uv", "uv $*")):
        (tools / name).write_text(f'#!/bin/sh\necho "{says}"\n')
        (tools / name).chmod(0o755)
    done = subprocess.run(
        ["sh", str(REPO / "hooks" / "serve.sh")],
        env={"PATH": f"{tools}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout == f"uv tool run --quiet --from {REPO} mcp-memory-toc serve\n"
