"""What others of the team did since one's own last session stands in the brief of the next one, in two lines."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.capture.inbox import read_brief
from mcp_memory.capture.team_news import NEWS_MS, with_news
from mcp_memory.domain.events import PRIVATE
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.people import ProjectName
from mcp_memory.errors import TeamRefused
from mcp_memory.store.sharing_port import Chosen
from mcp_memory.surfaces.forget_command import carry_out
from mcp_memory.team.asking import AskedTeam
from mcp_memory.team.known import TeamKnown
from tests.surfaces.team_server import NOW, TeamDesk, reachable, team_server
from tests.surfaces.team_talk import CAROL, LATELY, OWN, REMOTE, joined, line, repository, tell, three_people

pytestmark = pytest.mark.anyio
BOBS = "invoices are numbered by year, because the auditors ask for it"
PRIVATE_LINES = [line("15:00:00", "user", "Nobody else may read this.", "carol-9", NOW.date())]


def brief(app: App) -> str:
    """The brief as the hook prints it now."""
    home = str(app.settings.home)
    return with_news(home, read_brief(home, f"remote:{REMOTE}"), time.time_ns() // 1_000_000)


async def learn_news(app: App) -> None:
    team = app.team
    assert team
    await team.refresh(app.store, app.clock)
    await app.pipeline.until_idle()
    await app.pipeline.lease.release()


async def test_the_brief_has_two_lines_of_what_others_did_and_none_of_ones_own(tmp_path: Path) -> None:
    async def fill(app: App) -> None:
        await tell(app, "dan", OWN)
        await three_people(app)

    async with team_server(tmp_path / "server", fill) as desk, reachable(desk) as url:
        settings = await joined(tmp_path / "laptop", url, await desk.add_user("dan"))
        async with open_app(settings, cwd=repository(tmp_path / "clone")) as app:
            assert "Of the team" not in brief(app)
            await learn_news(app)
            told = [one for one in brief(app).splitlines() if one.startswith("Of the team: ")]
            assert [one.split()[3] for one in told] == ["carol,", "carol,"]
            assert "Rule: Never log card numbers" in told[0]
            assert all(" grip:" in one for one in told)
            assert app.pipeline.compactor.tokens.count(brief(app)) <= app.settings.brief.budget_tokens

            # What is to be forgotten here is not left in what was heard of others.
            await carry_out(app, ForgetRequest(match="card numbers"), dry_run=False)
            assert "card numbers" not in brief(app) + str(TeamKnown.load(settings))
            await learn_news(app)

            # Once one has worked there again it is news no more.
            await tell(app, "", [line("11:00:00", "user", "Now let me look at the invoices.", "dan-2", NOW.date())])
            await app.pipeline.until_idle()
            assert "Of the team" not in brief(app)
            await app.pipeline.lease.release()


async def test_one_server_of_a_machine_asks_and_the_others_read_what_it_kept(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server", three_people) as desk, reachable(desk) as url:
        settings = await joined(tmp_path / "laptop", url, await desk.add_user("dan"))
        async with open_app(settings, cwd=repository(tmp_path / "clone")) as app:
            await learn_news(app)
            kept = TeamKnown.load(settings)
            assert set(kept.news) == {"shop"}
            await desk.store.revoke_user("dan", desk.memory.now_ms())
            other = AskedTeam(app.team._account, settings)  # type: ignore[union-attr]  # as another process has it
            await other.refresh(app.store, app.clock)
            assert other._known == kept
            await other.close()


def holds(home: Path, words: str) -> list[str]:
    """The files of a data directory in which the words stand."""
    files = [path for path in home.rglob("*") if path.is_file()]
    return sorted(path.name for path in files if words.encode() in path.read_bytes())


async def ask(app: App) -> None:
    """Any question to the team's server, after which it is known what the server has erased."""
    assert app.team
    reply = await app.team.ask("toc_root", {}, ProjectName(REMOTE, "shop"))
    assert reply
    assert not reply.trouble, reply.told


async def forget_session(desk: TeamDesk, session: str) -> int:
    """Let carol's laptop tell the server to forget a session; how many events that are."""
    keys = [event.key for _, event in await desk.store.log(0, None, 999) if event.session_id == session]
    return (await desk.store.forget_events(keys, "carol")).events


async def test_what_a_colleague_forgets_is_gone_from_this_machine_with_the_next_answer(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server", three_people) as desk, reachable(desk) as url:
        settings = await joined(tmp_path / "laptop", url, await desk.add_user("dan"))
        async with open_app(settings, cwd=repository(tmp_path / "clone")) as app:
            await learn_news(app)
            assert "Never log card numbers" in brief(app)
            assert holds(settings.home, "Never log card numbers") == ["team-known.json"]
            # What she keeps for herself, and forgets, is nobody's business: nothing tells of it.
            await tell(await desk.memory.whole(), "carol", PRIVATE_LINES, visibility=PRIVATE)
            assert await forget_session(desk, "carol-9") == 1
            await ask(app)
            assert "Never log card numbers" in brief(app)

            assert await forget_session(desk, "carol-1") == len(CAROL)
            await ask(app)
            assert "Of the team" not in brief(app)
            assert brief(app).startswith("<memory ")
            assert holds(settings.home, "Never log card numbers") == []
            whole = await desk.memory.whole()
            await tell(whole, "bob", [line("12:00:00", "assistant", f"Decision: {BOBS}.", "bob-2", LATELY)])
            await whole.pipeline.until_idle()
            await whole.pipeline.lease.release()
            await learn_news(app)
            assert f"bob, {LATELY}" in brief(app)
            assert BOBS in brief(app)


@pytest.mark.parametrize("by", ["push", "revoked"])
async def test_any_answer_to_this_machine_drops_what_was_erased(tmp_path: Path, by: str) -> None:
    async with team_server(tmp_path / "server", three_people) as desk, reachable(desk) as url:
        settings = await joined(tmp_path / "laptop", url, await desk.add_user("dan"))
        async with open_app(settings, cwd=repository(tmp_path / "clone")) as app:
            await learn_news(app)
            assert "Of the team" in brief(app)
            if by == "push":
                assert await forget_session(desk, "carol-1") == len(CAROL)
                await app.store.share(Chosen(project="shop"), 0, dry_run=False)
                await tell(app, "", [line("07:00:00", "user", "Look at the invoices.", "dan-0", NOW.date())])
                assert (await app.pusher.push()).new
            else:
                await desk.store.revoke_user("dan", desk.memory.now_ms())
                with pytest.raises(TeamRefused):
                    await app.team._fresh(0, time.monotonic() + 9)  # type: ignore[union-attr]
            assert "Of the team" not in brief(app)
            assert TeamKnown.load(settings).news == {}


async def test_news_that_the_server_has_not_confirmed_for_a_day_are_not_printed(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server", three_people) as desk, reachable(desk) as url:
        settings = await joined(tmp_path / "laptop", url, await desk.add_user("dan"))
        async with open_app(settings, cwd=repository(tmp_path / "clone")) as app:
            await learn_news(app)
        told_ms = TeamKnown.load(settings).news_ms
        kept = read_brief(str(settings.home), f"remote:{REMOTE}")
        shown = [with_news(str(settings.home), kept, told_ms + age) for age in (0, NEWS_MS - 1, NEWS_MS, 7 * NEWS_MS)]
        assert ["Of the team" in text for text in shown] == [True, True, False, False]
        assert "\x1d" not in "".join(shown)
        # Neither does a brief print them that an earlier version has made.
        assert with_news(str(settings.home), "<memory>\nOf the team: carol\n- x\n", told_ms) == "<memory>\n- x\n"


async def test_news_that_an_earlier_version_wrote_into_a_brief_go_with_the_first_answer(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server") as desk, reachable(desk) as url:
        settings = await joined(tmp_path / "laptop", url, await desk.add_user("dan"))
        known = {"server": url, "asked_ms": 0, "projects": [], "news_ms": 1, "news": {"shop": [[1, "carol: cromlech"]]}}
        settings.team_known.write_text(json.dumps(known))
        async with open_app(settings, cwd=repository(tmp_path / "clone")) as app:
            text = brief(app).replace("\n", "\nOf the team: carol: cromlech\n", 2)
            await app.inbox.keep({f"remote:{REMOTE}": text}, 1)
            assert "cromlech" not in brief(app)
            assert holds(settings.home, "cromlech")
            await learn_news(app)
            assert "cromlech" not in read_brief(str(settings.home), f"remote:{REMOTE}")
        assert not TeamKnown.load(settings).news
