"""What an export holds: of a team's memory what its viewer may read, on a laptop what was captured there alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.people import Viewer
from mcp_memory.errors import NotFound
from mcp_memory.surfaces import cli
from mcp_memory.surfaces.export_command import export
from tests.surfaces.client import ask, connected
from tests.surfaces.team_server import reachable, team_server
from tests.surfaces.team_talk import joined, repository, three_people
from tests.surfaces.team_world import CLOSED, OWN, PROJECT, team

pytestmark = pytest.mark.anyio


async def exported(app: App, place: Path, project: str = "*") -> str:
    """All that is written, in each format, names of files included."""
    place.mkdir()
    for words in (("-o", str(place / "all.jsonl")), ("--format", "markdown", "-o", str(place / "pages"))):
        await export(app, cli.parser().parse_args(["export", "--project", project, *words]))
    files = [path for path in sorted(place.rglob("*")) if path.is_file()]
    return "\n".join(f"{path.relative_to(place)}\n{path.read_text()}" for path in files)


async def test_through_the_eyes_of_a_member_an_export_holds_what_that_member_may_read(tmp_path: Path) -> None:
    async with team(tmp_path / "server") as desk:
        whole = await desk.memory.whole()

        async def words_in(name: str) -> set[str]:
            told = await exported(whole.seen_by(Viewer(name)), tmp_path / name)
            assert "idempotency key" in told
            return {word for word in (*OWN, CLOSED) if word in told}

        assert [await words_in(name) for name in ("bob", "rita", "root")] == [set(), set(), set()]
        assert await words_in("eve") == {CLOSED}
        assert await words_in("ada") == {*OWN, CLOSED}
        for project in (PROJECT, CLOSED):
            with pytest.raises(NotFound):
                await exported(whole.seen_by(Viewer("bob")), tmp_path / project, project)
        # Whoever runs the server has its database, and all that is in it.
        told = await exported(whole, tmp_path / "operator")
        assert [word for word in (*OWN, CLOSED) if word not in told] == []


async def test_on_a_laptop_that_has_joined_an_export_holds_what_was_captured_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository(tmp_path / "shop"))
    async with team_server(tmp_path / "server", three_people) as desk, reachable(desk) as url:
        settings = await joined(tmp_path / "laptop", url, await desk.add_user("dan"))
        async with connected(settings) as agent:
            assert "idempotency key" in await ask(agent, "teleport", query="idempotency key")
        async with open_app(settings, typed=True) as app:
            told = await exported(app, tmp_path / "out")
            assert "Set up the repository of the shop" in told
            for theirs in ("idempotency", "vat_rate", "structlog", "ada-1", "carol"):
                assert theirs not in told, theirs
            with pytest.raises(NotFound):
                await exported(app, tmp_path / "theirs", "team/shop")
