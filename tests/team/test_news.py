"""What others of the team did since one's own last session stands in the brief of the next one, in two lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.capture.inbox import read_brief
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.surfaces.forget_command import carry_out
from mcp_memory.team.asking import AskedTeam, TeamKnown
from tests.surfaces.team_server import NOW, reachable, team_server
from tests.surfaces.team_talk import OWN, REMOTE, joined, line, repository, tell, three_people

pytestmark = pytest.mark.anyio


def brief(app: App) -> str:
    return read_brief(str(app.settings.home), f"remote:{REMOTE}")


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
