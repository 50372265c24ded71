"""The docs must tell what there is, all of it and nothing else: commands, tools, settings, variables, formats."""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_memory import __version__, config
from mcp_memory.capture.redaction.values import RULES
from mcp_memory.clients import CLIENTS, default_places, installable
from mcp_memory.clients.port import Folders
from mcp_memory.domain.events import EventType
from mcp_memory.domain.nodes import Kind
from mcp_memory.surfaces import cli
from mcp_memory.surfaces.server import Memory, build_server
from mcp_memory.times.resolve import resolve
from tests.support import REPO

Answer = Callable[..., dict[str, Any]]

PAGES = sorted([*REPO.glob("*.md"), *(REPO / "docs").glob("*.md"), *(REPO / "hooks").glob("*.md")])
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
#: What is set as code: fenced blocks, indented lines, and words in backticks.
_CODE = re.compile(r"^```\w*\n.*?^```$|^ {4}[^\n]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_CALL = re.compile(r"(?:^|[ `/])mcp-memory ([a-z]+)\b([^`\n#;,]*)", re.MULTILINE)
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
#: Directories that only one machine has. `~` and places in /tmp that a reader makes are everyone's.
_MACHINE = re.compile(r"/home/\w|/Users/\w|/root\b|/tmp/docs-|[A-Z]:\\+Users\\", re.IGNORECASE)
_OWN_VARIABLE = re.compile(r"\bMCP_MEMORY_[A-Z_]*[A-Z]\b")
_READ_VARIABLE = re.compile(r"""\benv(?:iron)?(?:\.get\(|\[)["']([A-Z][A-Z_]*[A-Z])["']""")


def read(name: str) -> str:
    return (REPO / name).read_text("utf-8")


def sections(name: str) -> dict[str, str]:
    """The parts of a page that stand under a heading of one name in backticks, by that name."""
    parts = re.split(r"^#+ +(.+)$", read(name), flags=re.MULTILINE)
    titles, bodies = parts[1::2], parts[2::2]
    return {title.strip("`"): body for title, body in zip(titles, bodies, strict=True) if title.startswith("`")}


def table(text: str) -> dict[str, list[str]]:
    """The rows of a section's table, by what stands in backticks in their first cell."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return {name: [cell.strip() for cell in row[1:]] for row in rows for name in re.findall(r"`([^`]+)`", row[0])}


@cache
def commands() -> dict[str, argparse.ArgumentParser]:
    for action in cli.parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("the parser has no commands")


def names_of(action: argparse.Action) -> list[str]:
    """How the docs call an option or argument: `--pin`, `--limit N`, `ID`."""
    shown = action.metavar if isinstance(action.metavar, str) else ""
    if action.option_strings:
        return [f"{option} {shown}".strip() for option in action.option_strings]
    return [shown or action.dest.upper()]


def options_of(command: str) -> list[argparse.Action]:
    return [action for action in commands()[command]._actions if action.dest != "help"]


@cache
def offered() -> dict[str, Any]:
    """What the server publishes, which it does without opening a memory."""

    async def ask() -> dict[str, Any]:
        server = build_server(Memory(config.Settings(home=Path("nowhere"))))
        templates = await server.list_resource_templates()
        return {
            "tools": {tool.name: tool.input_schema for tool in await server.list_tools()},
            "resources": {str(one.uri) for one in await server.list_resources()}
            | {one.uri_template for one in templates},
            "prompts": {
                prompt.name: [argument.name for argument in prompt.arguments or []]
                for prompt in await server.list_prompts()
            },
        }

    return anyio.run(ask)


def variables() -> set[str]:
    """The environment variables that the code names, and those of the settings."""
    rows = config.rows_of(config.Settings)
    found = {config.variable(section, key) for section in rows for key in rows[section]}
    for path in (REPO / "mcp_memory").rglob("*.py"):
        text = path.read_text("utf-8")
        found.update(_OWN_VARIABLE.findall(text), _READ_VARIABLE.findall(text))
    return found


def anchors(path: Path) -> set[str]:
    """The headings of a page as links name them."""
    text = _FENCE.sub("", path.read_text("utf-8"))
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in _HEADING.findall(text)}


def links(path: Path) -> Iterator[str]:
    text = _FENCE.sub("", path.read_text("utf-8"))
    yield from (link for link in _LINK.findall(text) if "://" not in link)


def test_the_command_page_has_a_section_for_each_command_and_no_other() -> None:
    assert set(sections("docs/CLI.md")) == set(commands())


@pytest.mark.parametrize("command", sorted(commands()))
def test_a_command_is_documented_with_all_its_options_and_no_other(command: str) -> None:
    listed = set(table(sections("docs/CLI.md")[command]))
    assert listed == {name for action in options_of(command) for name in names_of(action)}


@pytest.mark.parametrize("command", sorted(commands()))
def test_the_choices_and_defaults_of_options_are_documented(command: str) -> None:
    rows = table(sections("docs/CLI.md")[command])
    for action in options_of(command):
        meaning = rows[names_of(action)[0]][0]
        unnamed = [
            choice for choice in action.choices or () if f"`{choice}`" not in meaning and "as for" not in meaning
        ]
        assert not unnamed, action.dest
        if action.option_strings and isinstance(action.default, int | str) and not isinstance(action.default, bool):
            assert str(action.default) in meaning, action.dest


@pytest.mark.parametrize("command", sorted(commands()))
def test_each_command_has_an_example(command: str) -> None:
    assert re.search(rf"^    \$ .*mcp-memory {command}\b", sections("docs/CLI.md")[command], re.MULTILINE)


def test_examples_name_no_command_or_option_that_is_not_there() -> None:
    for page in PAGES:
        code = "\n".join(_CODE.findall(page.read_text("utf-8")))
        for command, rest in _CALL.findall(code):
            assert command in commands(), f"{page.name}: mcp-memory {command}{rest}"
            known = {name for action in options_of(command) for name in action.option_strings}
            given = set(re.findall(r"(?<=\s)--[a-z][a-z-]+", rest))
            assert given <= known, f"{page.name}: mcp-memory {command}{rest}"


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Answer:
    """Runs a command on the sample history and gives its JSON."""
    monkeypatch.setenv("MCP_MEMORY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> dict[str, Any]:
        assert cli.main([*words, "--json"]) == 0
        shape: dict[str, Any] = json.loads(capsys.readouterr().out)
        return shape

    run("demo")
    return run


def test_the_documented_json_shapes_are_those_of_the_commands(answer: Answer) -> None:
    page = read("docs/CLI.md").partition("## JSON shapes")[2]
    blocks = re.findall(r"^(?:`(\w+) --json`|(\w+))[^\n]*:\n\n```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    shown = {command or name: json.loads(block) for command, name, block in blocks}
    node = answer("toc")["nodes"][0]
    assert node.keys() == shown["NODE"].keys()
    assert node["bullets"][0].keys() == shown["NODE"]["bullets"][0].keys()
    assert answer("node", node["node_id"]).keys() == shown["NODE"].keys() | shown["node"].keys()
    grip = answer("grip", node["bullets"][0]["grip_ids"][0])
    assert grip.keys() == shown["grip"].keys()
    assert grip["events"][0].keys() == shown["EVENT"].keys()
    found = answer("search", "refresh token")
    assert found.keys() == shown["search"].keys()
    assert found["hits"][0].keys() == shown["search"]["hits"][0].keys()
    card = answer("sessions")["sessions"][0]
    assert card.keys() == shown["SESSION"].keys() == answer("last")["session"].keys()
    for listed in (answer("open")["open"], answer("file", "app/auth.py")["changes"]):
        assert listed[0].keys() == shown["search"]["hits"][0].keys()
    status = answer("status")
    assert status.keys() == shown["status"].keys()
    assert status["backlog"].keys() == shown["status"]["backlog"].keys()


def test_every_kind_of_bullet_is_documented_with_its_label() -> None:
    rows = re.findall(r"^\| (`[a-z`, ]+`) \| ([^|]*)\|", read("docs/CLI.md"), re.M)
    told = {name: set(label.strip().split(", ")) for names, label in rows for name in re.findall("`([a-z]+)`", names)}
    for kind in Kind:
        if kind not in (Kind.HEADING, Kind.NOISE):
            assert not kind.label or kind.label in told[kind]


@pytest.mark.parametrize(
    "words",
    [
        *(
            "process",
            "demo",
            "projects",
            "timeline today",
            "toc",
            "import --dry-run",
            "remember x",
            "models",
            "models off",
        ),
        *(
            "last",
            "today",
            "open",
            "file app/auth.py",
            "sessions",
            "session",
            "recall",
            "recall list",
            "completion bash",
        ),
    ],
)
def test_what_a_command_answers_as_json_is_named_in_its_section(
    words: str, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "nowhere")
    section = sections("docs/CLI.md")[words.split()[0]] + read("docs/CLI.md").partition("\nEVENT:")[2]
    assert [key for key in answer(*words.split()) if f'"{key}"' not in section and f"`{key}`" not in section] == []


def test_the_documented_time_phrases_are_understood() -> None:
    page = read("docs/CLI.md").partition("## Time phrases")[2].partition("\n## ")[0]
    phrases = [
        phrase for line in page.splitlines() if line.startswith("|") for phrase in re.findall(r"`([^`]+)`", line)
    ]
    assert len(phrases) > 20
    for phrase in phrases:
        resolve(phrase, datetime(2026, 11, 16, 12, tzinfo=UTC), UTC)


def test_the_readme_and_the_changelog_name_every_tool() -> None:
    for page in ("README.md", "CHANGELOG.md"):
        missing = [tool for tool in offered()["tools"] if f"`{tool}`" not in read(page)]
        assert not missing, page


def test_the_changelog_names_every_command() -> None:
    assert [command for command in commands() if f"`{command}`" not in read("CHANGELOG.md")] == []


def test_the_server_page_has_a_section_for_each_tool_and_no_other() -> None:
    assert set(sections("docs/MCP.md")) == set(offered()["tools"])


@pytest.mark.parametrize("tool", sorted(offered()["tools"]))
def test_a_tool_is_documented_with_all_its_arguments_and_their_defaults(tool: str) -> None:
    schema = offered()["tools"][tool]
    rows = table(sections("docs/MCP.md")[tool])
    assert set(rows) == set(schema["properties"])
    for name, field in schema["properties"].items():
        if name in schema.get("required", ()):
            wanted = "required"
        else:
            wanted = f"`{json.dumps(field['default'])}`" if "default" in field else "none"
        assert rows[name][0] == wanted, name


def test_every_resource_and_prompt_is_documented() -> None:
    rows = table(read("docs/MCP.md"))
    assert {name for name in rows if name.startswith("memory://")} == offered()["resources"]
    for prompt, arguments in offered()["prompts"].items():
        assert all(f"`{argument}`" in rows[prompt][0] for argument in arguments), prompt


def test_every_setting_is_documented_with_its_default_what_is_allowed_and_its_variable() -> None:
    pages = sections("docs/CONFIGURATION.md")
    settings = config.rows_of(config.Settings)
    assert {title.strip("[]") for title in pages if title.startswith("[")} == set(settings)
    for section, keys in settings.items():
        rows = table(pages[f"[{section}]"])
        assert set(rows) == set(keys), section
        for key, row in keys.items():
            default, allowed, _, variable = rows[key]
            assert default == f"`{json.dumps(row.default)}`", key
            assert row.metadata["allowed"] in allowed, key
            assert variable == f"`{config.variable(section, key)}`", key


def test_the_example_settings_are_valid(tmp_path: Path) -> None:
    for page in ("README.md", "docs/CONFIGURATION.md"):
        blocks = re.findall(r"^```toml\n(\[.*?)^```", read(page), re.MULTILINE | re.DOTALL)
        assert blocks, page
        for block in blocks:
            if "mcp_servers" in block:
                tomllib.loads(block)
                continue
            (tmp_path / "config.toml").write_text(block, "utf-8")
            config.load({"MCP_MEMORY_HOME": str(tmp_path)})


def test_every_environment_variable_is_documented_and_no_other() -> None:
    named = set(re.findall(r"`([A-Z][A-Z_]+[A-Z])`", read("docs/CONFIGURATION.md")))
    assert named == variables()


def test_every_client_is_documented() -> None:
    capture, load = read("docs/CAPTURE.md"), read("docs/IMPORT.md")
    for client in CLIENTS.values():
        assert f"`{client.name}`" in capture or client.name == "jsonl", client.name
        assert not client.variable or (f"`{client.variable}`" in capture and f"`{client.variable}`" in load), (
            client.name
        )
        assert not client.setup or f"mcp-memory install {client.name}" in read("README.md"), client.name
    formats = table(load.partition("## Generic")[0])
    assert set(formats) >= {"auto", *CLIENTS}
    for name, places in default_places(Folders(Path("~"))).items():
        shown = [place.as_posix().removeprefix(f"{Path.cwd().as_posix()}/") for place in places]
        unnamed = [place for place in shown if f"`{place}`" not in formats[name][-1]]
        assert not unnamed, name


def test_the_registered_events_and_the_settings_file_of_each_client_are_documented() -> None:
    page = read("docs/CAPTURE.md").partition("## What is captured")[2].partition("## Redaction")[0]
    rows = {line.split("|")[1].strip(): line.split("|") for line in page.splitlines() if line.count("|") == 4}
    assert set(rows) - {"client", "---"} == {client.title for client in installable().values()}
    for client in installable().values():
        _, _, events, file, _ = rows[client.title]
        assert re.findall(r"`(\w+)`", events) == list(client.registered.events), client.name
        assert file.strip(" `").removeprefix("~/") == client.registered.hooks["user"], client.name


def test_every_event_type_and_redaction_mark_is_documented() -> None:
    page = read("docs/CAPTURE.md")
    assert [kind.value for kind in EventType if f"`{kind.value}`" not in page] == []
    kinds = {rule[0] for table in RULES.values() for rule in table} | {"private", "private-key", "key"}
    assert [kind for kind in sorted(kinds) if f"`[redacted:{kind}]`" not in page] == []


def test_every_table_of_the_database_is_documented() -> None:
    schema = "".join(path.read_text("utf-8") for path in (REPO / "mcp_memory").rglob("schema/*.sql"))
    tables = re.findall(r"^CREATE (?:VIRTUAL )?TABLE (?:IF NOT EXISTS )?(\w+)", schema, re.MULTILINE)
    assert tables
    page = read("docs/ARCHITECTURE.md").partition("## Schema")[2].partition("\n## ")[0]
    assert [name for name in tables if f"`{name}`" not in page] == []


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    extras = [line for lines in project.get("optional-dependencies", {}).values() for line in lines]
    names = {re.split(r"[<>=;\[ ]", line)[0] for line in [*project["dependencies"], *extras]}
    listed = table(read("docs/ARCHITECTURE.md").partition("## Dependencies")[2].partition("\n## ")[0])
    assert set(listed) == names


def test_every_page_of_the_docs_is_linked_from_the_readme() -> None:
    linked = set(links(REPO / "README.md"))
    assert [page.name for page in (REPO / "docs").glob("*.md") if f"docs/{page.name}" not in linked] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPO)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", [*PAGES, REPO / "claude_config.example.json"], ids=lambda page: str(page.name))
def test_no_page_names_a_directory_of_one_machine(page: Path) -> None:
    assert _MACHINE.findall(page.read_text("utf-8")) == []


def test_the_json_examples_are_valid() -> None:
    blocks = [
        block for page in PAGES for block in re.findall(r"^```json\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    ]
    assert blocks
    for block in blocks:
        values = block.splitlines() if block.startswith('{"session_id"') else [block]
        assert all(isinstance(json.loads(value), dict) for value in values)


def test_the_newest_version_of_the_changelog_is_this_one() -> None:
    versions = re.findall(r"^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$", read("CHANGELOG.md"), re.MULTILINE)
    assert versions[0] == __version__


def test_the_example_registers_every_event_that_capture_supports() -> None:
    example = json.loads(read("claude_config.example.json"))
    assert set(example["hooks"]) == set(CLIENTS["claude-code"].registered.events)
    assert set(example["mcpServers"]) == {"memory"}


def test_the_quick_start_is_what_make_offers() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", read("Makefile"), re.MULTILINE))
    named = {
        target
        for page in PAGES
        for target in re.findall(
            r"\bmake (run|test-slow|test|clock|shuffle|bench|e2e|clean)\b", page.read_text("utf-8")
        )
    }
    assert {"run", "test"} <= named <= targets
    assert re.findall(r"^(?:exec )?make (.+)$", read(".ci/run"), re.MULTILINE) == ["test", "test-slow"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_of_ours_that_is_named_exists(page: Path) -> None:
    named = re.findall(r"`((?:tests|bench|release|hooks)/[\w./-]*)`", page.read_text("utf-8"))
    assert [name for name in named if not (REPO / name).exists()] == []
