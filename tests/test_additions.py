"""What several places must know stands once: a toy of each kind is added in its one place, and works end to end."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from mcp_memory import config, setting_kinds
from mcp_memory.app import App
from mcp_memory.capture.inbox import Row, spool
from mcp_memory.capture.redaction import Clean
from mcp_memory.clients import CLIENTS
from mcp_memory.clients.port import USER, BadLine, Client, Reading, Setup, TranscriptState
from mcp_memory.domain.events import Captured, Event, EventType, Role
from mcp_memory.domain.nodes import Kind, SegmentSummary
from mcp_memory.errors import SettingsError
from mcp_memory.summaries import ExtractiveSummarizer
from mcp_memory.surfaces import cli, resources, tools
from mcp_memory.surfaces.protocol import declared
from tests.support import all_nodes, conversation, learn, memory
from tests.surfaces.client import ask, connected, read, refused


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty memory, and a user's home that no real client has anything in."""
    monkeypatch.setenv("MCP_MEMORY_HOME", str(tmp_path / "memory"))
    monkeypatch.setenv("HOME", str(tmp_path / "ada"))
    (tmp_path / "ada").mkdir()
    monkeypatch.chdir(tmp_path / "ada")
    return tmp_path


async def count(app: App, options: argparse.Namespace) -> Mapping[str, int] | str:
    events = (await app.store.counts()).events * options.times
    return {"events": events} if options.json else f"{events} events"


def test_a_command_is_one_row(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    times = {"name": "--times", "type": "int", "default": 1, "metavar": "N", "help": "how often each counts"}
    toy = cli.Command("count", "how many events there are", f"{__name__}.count", [times])
    monkeypatch.setattr(cli, "COMMANDS", [*cli.COMMANDS, toy])
    assert cli.main(["count"]) == 0
    assert capsys.readouterr().out == "0 events\n"
    cli.main(["demo", "--json"])
    events = json.loads(capsys.readouterr().out)["events"]
    assert cli.main(["count", "--times", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"events": 2 * events}
    with pytest.raises(SystemExit):
        cli.main(["count", "--times", "often"])
    assert "--times" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert "how many events there are" in capsys.readouterr().out


@pytest.mark.anyio
async def test_a_tool_is_its_docstring_its_arguments_and_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "TOOLS", dict(tools.TOOLS))

    @tools.tool("Count", "how much is remembered")
    async def count_events(self: tools.Tools, times: int = 1) -> str:
        """How many events there are."""
        return str((await (await self.memory.app()).store.counts()).events * times)

    async with connected(config.Settings(home=tmp_path)) as client:
        [published] = [tool for tool in (await client.list_tools()).tools if tool.name == "count_events"]
        assert (published.title, published.description) == ("Count", "How many events there are.")
        assert published.annotations is not None
        assert published.annotations.read_only_hint
        await ask(client, "remember", text="The kiln fires at 1,060 degrees.")
        assert await ask(client, "count_events", times=3) == "3"
        assert "has no argument 'often'" in await refused(client, "count_events", often=1)


@pytest.mark.anyio
async def test_a_resource_and_a_prompt_are_one_function_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "RESOURCES", dict(resources.RESOURCES))
    monkeypatch.setattr(resources, "PROMPTS", dict(resources.PROMPTS))

    @declared(resources.RESOURCES, uri="memory://count/{times}", description="How many events there are")
    async def counted(self: resources.Shelf, times: str) -> str:
        return str((await (await self.memory.app()).store.counts()).events * int(times))

    @declared(resources.PROMPTS, title="Count", description="Asks how much is remembered")
    def how_many(self: resources.Shelf, unit: str) -> str:
        return f"How many {unit} are remembered?"

    async with connected(config.Settings(home=tmp_path)) as client:
        await ask(client, "remember", text="The kiln fires at 1,060 degrees.")
        assert (await read(client, "memory://count/4")).text == "4"
        prompt = await client.get_prompt("how_many", {"unit": "events"})
        assert "How many events" in str(prompt.messages[0].content)


@dataclass(frozen=True, slots=True)
class Kiln:
    degrees: int = setting_kinds.number(1_060, 600, 1_400)
    cones: str = setting_kinds.choice("six", "ten")


@dataclass(frozen=True, slots=True)
class KilnSettings(config.Settings):
    kiln: Kiln = field(default_factory=Kiln)


def test_a_setting_is_one_row(tmp_path: Path) -> None:
    def kiln(**variables: str) -> Kiln:
        settings = config.load({"MCP_MEMORY_HOME": str(tmp_path), **variables}, KilnSettings)
        assert isinstance(settings, KilnSettings)
        return settings.kiln

    assert kiln() == Kiln(1_060, "six")
    (tmp_path / "config.toml").write_text('[kiln]\ndegrees = 980\ncones = "ten"\n')
    assert kiln(MCP_MEMORY_KILN_DEGREES="1200") == Kiln(1_200, "ten")
    with pytest.raises(SettingsError, match=r"MCP_MEMORY_KILN_DEGREES.*must be a whole number from 600 to 1,400"):
        kiln(MCP_MEMORY_KILN_DEGREES="hot")
    with pytest.raises(SettingsError, match="MCP_MEMORY_KILN_DEGREE is not a setting.*MCP_MEMORY_KILN_DEGREES"):
        kiln(MCP_MEMORY_KILN_DEGREE="900")


class Scroll:
    """A client whose transcripts are lines of plain text."""

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Reading:
        return Reading("scroll-1", (said(str(payload["text"]), received_ms),))

    def read(self, path: Path, state: TranscriptState) -> Iterator[Captured | BadLine]:
        for number, line in enumerate(path.read_text().splitlines()):
            yield said(line, 1_793_000_000_000 + number)

    def recognizes(self, path: Path) -> bool:
        return path.suffix == ".scroll"


def said(text: str, moment_ms: int) -> Captured:
    return Captured("scroll", "scroll-1", str(moment_ms), moment_ms, EventType.USER_MESSAGE, Role.USER, text)


def test_a_client_is_one_row_and_its_reader(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = Setup(
        events=("said",),
        hooks={USER: ".scroll/hooks.json"},
        servers={USER: ".scroll/servers.json"},
        timeout=10,
        signs=(".scroll",),
        programs=(),
        hint="Scroll takes this up at once.",
    )
    toy = Client(
        name="scroll", title="Scroll", reader=Scroll(), suffixes=(".scroll",), places=(".scroll/rolls",), setup=setup
    )
    monkeypatch.setitem(CLIENTS, "scroll", toy)
    rolls = home / "ada" / ".scroll" / "rolls"
    rolls.mkdir(parents=True)
    (rolls / "one.scroll").write_text("The kiln fires at 1,060 degrees.\nThe glaze is celadon.\n")

    def run(*words: str) -> dict[str, Any]:
        cli.main([*words, "--json"])
        shape: dict[str, Any] = json.loads(capsys.readouterr().out)
        return shape

    assert run("import", "--client", "scroll")["events_new"] == 2
    assert run("search", "celadon", "--project", "*")["hits"]
    spool(str(home / "memory"), Row(1_793_000_900_000, "scroll", "/home/ada/kiln", "", Clean('{"text": "Fire it."}')))
    assert run("process")["events"] == 1
    assert {each["change"] for each in run("install", "scroll")["files"]} == {"created"}
    assert "said" in (home / "ada" / ".scroll" / "hooks.json").read_text()
    assert "scroll" in run("doctor")["checked"]
    assert {each["change"] for each in run("uninstall", "scroll")["files"]} == {"removed"}


class Forecaster(ExtractiveSummarizer):
    """Finds in every segment what the toy kind is about."""

    kind: Kind

    async def segment(self, events: Sequence[Event], context: Sequence[Event]) -> SegmentSummary:
        summary = await super().segment(events, context)
        return replace(summary, bullets=tuple(replace(bullet, kind=self.kind) for bullet in summary.bullets))


@pytest.mark.anyio
async def test_a_kind_of_bullet_is_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Kind._new_member_(  # type: ignore[attr-defined]  # closed at run time
        Kind, "weather", "Weather", 2.0
    )
    toy._name_ = "WEATHER"
    monkeypatch.setitem(Kind._value2member_map_, "weather", toy)
    monkeypatch.setitem(Kind._member_map_, "WEATHER", toy)
    async with memory(tmp_path) as app:
        app.pipeline.summarizer = forecaster = Forecaster()
        forecaster.kind = toy
        await learn(app, conversation())
        kinds = {bullet.kind for node in await all_nodes(app) for bullet in node.bullets}
        assert toy in kinds
        page = await app.answers.toc_root("alpha", None, 1_000)
        assert "Weather: " in page.text
