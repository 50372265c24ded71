"""What is shared reaches the team's server once, whatever happens on the way; what is taken back leaves it again."""

from __future__ import annotations

import gzip
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from mcp_memory.app import App
from mcp_memory.domain.events import EventQuery
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.errors import LeaseLost, TeamDenied, TeamRefused, TeamUnreachable
from mcp_memory.store.postgres import team as team_store
from mcp_memory.store.sharing_port import Chosen, Waiting
from mcp_memory.store.sql.database import Transaction
from mcp_memory.surfaces.export_command import _lines
from mcp_memory.team import push as pushing
from mcp_memory.team.account import PushState, team_problems
from mcp_memory.team.push import LOOK_SECONDS, Pushed, line_of, pause_after
from tests.support import conversation, said
from tests.surfaces.team_server import BASE, TeamDesk, team_server
from tests.team.laptop import Laptop, cut, laptop

pytestmark = pytest.mark.anyio
ALPHA = Chosen(project="alpha")
DAY_MS = 86_400_000


async def there(desk: TeamDesk) -> list[tuple[str, str]]:
    """What the team has, with who said it."""
    return [(event.author, event.text) for event in await desk.store.events(EventQuery())]


async def lines_of(app: App, path: Path) -> list[dict[str, Any]]:
    with path.open("w+") as file:
        await _lines(app, None, file, None)
        file.seek(0)
        return [json.loads(line) for line in file]


def talk(count: int = 6, session: str = "s1") -> list[dict[str, Any]]:
    at = "2026-03-02T09:00:0{}Z"
    return [said(f"{session} says {number}", at.format(number), session=session) for number in range(count)]


async def sharing(one: Laptop, *lines: dict[str, Any]) -> None:
    await one.say(*lines)
    await one.app.store.share(ALPHA, 0, dry_run=False)


async def test_what_is_shared_is_the_same_there_as_here(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        await ada.say(*conversation(), said("Elsewhere.", "2026-03-02T10:00:00Z", session="s2", project="beta"))
        await ada.app.remember("A note of my own.", project="alpha")
        assert await ada.pusher.push() == Pushed()
        await ada.app.store.share(ALPHA, 0, dry_run=False)
        assert await ada.pusher.push() == Pushed(new=8)
        assert await ada.pusher.push() == Pushed()
        mine = [line for line in await lines_of(ada.app, tmp_path / "a") if line["project"] == "alpha"]
        theirs = await lines_of(await desk.memory.whole(), tmp_path / "b")
        assert theirs == [line | {"author": "ada"} for line in mine if line["event_type"] != "note"]
        assert {author for author, _ in await there(desk)} == {"ada"}
        [(_, event), *_] = await ada.app.store.log(0, "alpha", 1)
        assert line_of(event, "") == mine[0]
        # What is said from now on goes there, too.
        await ada.say(said("One more.", "2026-03-02T11:00:00Z"))
        assert await ada.pusher.try_push() == {"pushed": 1}


async def test_offline_for_long_costs_nothing_but_delay(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        await sharing(ada, *talk())
        ada.line.before = cut
        pauses = [await ada.pusher.round() for _ in range(12)]
        assert all(2.5 <= pause <= 900 for pause in pauses)
        assert pauses[-1] >= 450
        assert (ada.state.error, ada.state.refused) == (f"{BASE} cannot be reached: no network", False)
        since = ada.state.failing_ms
        assert team_problems(ada.app.settings, since + DAY_MS // 2) == []
        [problem] = team_problems(ada.app.settings, since + 2 * DAY_MS)
        assert problem.fix == "mcp-memory team push"
        assert (await ada.pusher.facts())["waiting"] == 6
        ada.line.before = None
        assert await ada.pusher.round() == LOOK_SECONDS
        assert (len(await there(desk)), ada.state.error, ada.state.failing_ms) == (6, "", 0)
        assert team_problems(ada.app.settings, since + 9 * DAY_MS) == []


async def test_a_push_that_is_killed_goes_on_where_it_was_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushing, "PORTION", 2)
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        await sharing(ada, *talk())
        for after in (False, True):
            # Before the server has it, and after it has it but before the laptop knows.
            ada.line.before, ada.line.after = (None, cut) if after else (cut, None)
            pusher = ada.another()
            with pytest.raises(TeamUnreachable):
                await pusher.push()
            ada.line.before = ada.line.after = None
        told = await ada.another().push()
        assert (told.new + told.known, told.known) == (6, 2)
        assert [text for _, text in await there(desk)] == [line["text"] for line in talk()]


def copied(session: str, count: int) -> list[dict[str, Any]]:
    """Lines that a client repeats under the name of each session that resumes the one before."""
    lines = talk(count, "s1")
    names = [f"{number:08}-aaaa-4aaa-8aaa-aaaaaaaaaaaa" for number in range(count)]
    return [line | {"session_id": session, "source_id": name} for line, name in zip(lines, names, strict=True)]


async def test_the_copies_of_a_resumed_session_reach_the_team_once_from_one_laptop_or_two(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        await sharing(ada, *copied("s1", 3))
        await ada.say(*copied("s2", 4))
        assert await ada.pusher.push() == Pushed(new=4)
        expected = [line["text"] for line in copied("s2", 4)]
        assert [text for _, text in await there(desk)] == expected
        async with laptop(tmp_path / "another", desk, "bob") as bob:
            await sharing(bob, *copied("s3", 4))
            assert (await bob.pusher.push()).new == 4  # someone else's sessions are their own
        assert [text for author, text in await there(desk) if author == "ada"] == expected


async def test_two_laptops_of_one_member_store_what_a_session_copied_once(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        await sharing(ada, *copied("s1", 3))
        await ada.pusher.push()
        async with laptop(tmp_path / "desktop", desk) as desktop:
            await sharing(desktop, *copied("s2", 4))
            assert await desktop.pusher.push() == Pushed(new=1, known=3)
        assert [text for _, text in await there(desk)] == [line["text"] for line in copied("s2", 4)]


async def test_the_server_s_wish_to_wait_is_heard_and_no_two_laptops_come_back_at_once() -> None:
    assert pause_after(1, 40.0) == 40.0
    assert pause_after(3, 1e9) == 6 * 3600
    assert len({pause_after(9) for _ in range(9)}) > 1
    assert max(pause_after(5_000) for _ in range(9)) <= 900


async def test_a_revoked_token_is_not_sent_again_until_one_joins_anew(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        await sharing(ada, *talk())
        await desk.store.revoke_user("ada", desk.memory.now_ms())
        assert await ada.pusher.round() > 0
        assert ada.state.refused
        asked = len(ada.line.requests)
        assert await ada.pusher.round() == LOOK_SECONDS
        assert "does not accept the token" in (await ada.pusher.try_push())["push"]
        assert len(ada.line.requests) == asked
        [problem] = team_problems(ada.app.settings, 0)
        assert problem.fix == "mcp-memory team join URL"
        with pytest.raises(TeamRefused):
            await ada.pusher.push()
        await desk.add_user("ada")
        await ada.join(desk, "ada")
        assert (await ada.pusher.push()).new == 6


async def test_to_have_nothing_to_send_does_not_hide_what_is_in_the_way(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        PushState(error="away", failing_ms=1).save(ada.app.settings)
        assert (await ada.pusher.push(), ada.state.error) == (Pushed(), "")
        await desk.store.revoke_user("ada", desk.memory.now_ms())
        PushState(error="no", refused=True).save(ada.app.settings)
        with pytest.raises(TeamRefused):
            await ada.pusher.push()
        assert ada.state.refused


async def test_what_the_server_does_not_take_is_counted_and_keeps_nothing_else_back(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        desk = await stack.enter_async_context(team_server(tmp_path / "server"))
        ada = await stack.enter_async_context(laptop(tmp_path / "ada", desk, "ada"))
        again = await stack.enter_async_context(laptop(tmp_path / "again", desk, "ada"))
        bob = await stack.enter_async_context(laptop(tmp_path / "bob", desk, "bob"))
        await sharing(ada, *talk())
        assert (await ada.pusher.push()).new == 6
        # A second laptop of the same person: known. The same session of someone else: refused.
        await sharing(again, *talk(8))
        assert await again.pusher.push() == Pushed(new=2, known=6)
        await sharing(bob, *talk(9), *talk(2, "s2"))
        assert await bob.pusher.push() == Pushed(new=2, declined=9)
        assert (bob.state.declined, bob.state.reason) == (9, "the session is someone else's: s1")
        assert await bob.pusher.push() == Pushed()
        assert sorted(author for author, _ in await there(desk)) == ["ada"] * 8 + ["bob"] * 2
        assert "did not take" in team_problems(bob.app.settings, 0)[0].what
        await desk.store.set_role("bob", "reader")
        await bob.say(said("As a reader.", "2026-03-02T12:00:00Z", session="s2"))
        with pytest.raises(TeamDenied):
            await bob.pusher.push()
        assert (await bob.app.store.waiting()).events == 1


async def test_a_request_that_the_server_rejects_is_cut_down_to_the_event_it_is_about(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        await sharing(ada, *talk(5))
        real = ada.line.handle_async_request

        async def picky(request: httpx2.Request) -> httpx2.Response:
            if b"s1 says 3" in gzip.decompress(await request.aread()):
                return httpx2.Response(413, json={"error": "too much"})
            return await real(request)

        ada.line.handle_async_request = picky  # type: ignore[method-assign]
        assert await ada.pusher.push() == Pushed(new=4, declined=1)
        assert await ada.app.store.waiting() == Waiting(0, 0, 0)
        ada.line.handle_async_request = real  # type: ignore[method-assign]
        assert await ada.app.store.push_again() == 5
        assert await ada.pusher.push() == Pushed(new=1, known=4)


async def test_what_was_forgotten_is_forgotten_again_by_a_server_that_was_restored(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        await sharing(ada, *talk())
        await ada.pusher.push()
        dumped = await desk.store.events(EventQuery())
        await ada.app.store.forget(ForgetRequest(match="says 3"), dry_run=False)
        await ada.pusher.push()
        for table in ("forgotten", "forgotten_words"):
            await desk.store.database.write(Transaction.run, f"DELETE FROM {table}")
        await desk.tell("ada", *[event for event in dumped if event.text.endswith("3")], root="/w/beta")
        assert len(await there(desk)) == 6
        await ada.app.store.push_again()
        assert await ada.pusher.push() == Pushed(known=5, withdrawn=1)
        assert not any("says 3" in text for _, text in await there(desk))


async def test_what_is_taken_back_leaves_the_team_and_can_be_shared_again(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        await sharing(ada, *talk())
        await ada.pusher.push()
        await ada.app.store.unshare(ALPHA, dry_run=False)
        ada.line.before = cut
        assert "push" in await ada.pusher.try_push(withdraw_only=True)
        assert (await ada.pusher.facts())["to_withdraw"] == 6
        ada.line.before = None
        assert await ada.pusher.push() == Pushed(withdrawn=6)
        assert await there(desk) == []
        await ada.app.store.share(ALPHA, 0, dry_run=False)
        assert await ada.pusher.push() == Pushed(new=6)


async def test_what_is_forgotten_here_is_forgotten_there_even_while_it_is_on_its_way(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        await sharing(ada, *talk(3))
        await ada.pusher.push()
        await ada.app.store.forget(ForgetRequest(match="says 1"), dry_run=False)
        assert await ada.pusher.push() == Pushed(withdrawn=1)
        assert [text for _, text in await there(desk)] == ["s1 says 0", "s1 says 2"]
        # A portion that was under way when its event was forgotten arrives after the server was told.
        await ada.say(said("s1 says secret", "2026-03-02T13:00:00Z"))
        [(_, event)] = await ada.app.store.to_push(9, 9999)
        late = pushing.packed([event], {})
        await ada.app.store.forget(ForgetRequest(match="secret"), dry_run=False)
        assert await ada.pusher.push() == Pushed(withdrawn=1)
        async with desk.client("ada") as client:
            told = await client.post("/team/push", content=late, headers={"content-encoding": "gzip"})
        assert {"new": 0, "known": 1, "refused": []}.items() <= told.json().items()
        assert len(await there(desk)) == 2


async def test_one_event_that_the_server_never_takes_is_set_aside_and_the_queue_goes_on(tmp_path: Path) -> None:
    """The server answers 413 or 500 to whatever holds it, and the laptop finds out which one it is."""
    for status in (413, 422, 500):
        async with team_server(tmp_path / f"server{status}") as desk, laptop(tmp_path / f"{status}", desk) as ada:
            await sharing(ada, *talk(9))
            real = ada.line.handle_async_request

            async def picky(request: httpx2.Request, real: Any = real, status: int = status) -> httpx2.Response:
                if b"s1 says 4" in gzip.decompress(await request.aread()):
                    return httpx2.Response(status, json={"error": "It is odd."})
                answer: httpx2.Response = await real(request)
                return answer

            ada.line.handle_async_request = picky  # type: ignore[method-assign]
            assert await ada.pusher.push() == Pushed(new=8, declined=1)
            assert await ada.app.store.waiting() == Waiting(0, 0, 0)
            [event] = [event for _, event in await ada.app.store.log(0, "alpha", 99) if "says 4" in event.text]
            facts = await ada.pusher.facts()
            [row] = facts["set_aside"]
            assert row["event_id"] == event.event_id
            assert "It is odd." in row["reason"]
            assert "It is odd." in team_problems(ada.app.settings, 0)[0].why


async def test_a_server_that_fails_at_everything_is_waited_for(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        await sharing(ada, *talk(6))
        real, asked = ada.line.handle_async_request, 0

        async def broken(request: httpx2.Request) -> httpx2.Response:
            nonlocal asked
            asked += 1
            return httpx2.Response(500, json={"error": "It is broken."})

        ada.line.handle_async_request = broken  # type: ignore[method-assign]
        with pytest.raises(TeamUnreachable):
            await ada.pusher.push()
        assert (ada.state.declined, (await ada.app.store.waiting()).events) == (0, 6)
        assert asked <= 6
        ada.line.handle_async_request = real  # type: ignore[method-assign]
        assert (await ada.pusher.push()).new == 6


async def test_what_repeats_itself_is_not_taken_for_a_bomb(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        lines = talk(6) + [said("ha " * 20_000, f"2026-03-02T10:{n:02}:00Z") for n in range(40)]
        await sharing(ada, *lines)
        assert (await ada.pusher.push()).new == len(lines)
        assert {status for _, status in ada.line.requests} == {200}


async def test_a_laptop_with_many_projects_shares_them_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server begins a few at a time, so the laptop sends smaller portions."""
    monkeypatch.setattr(team_store, "MAX_NEW_PROJECTS", 2)
    names = [f"project-{number}" for number in range(7)]
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        await ada.say(
            *(
                said(f"Of {name}.", f"2026-03-02T09:0{n}:00Z", session=name, project=name)
                for n, name in enumerate(names)
            )
        )
        for name in names:
            await ada.app.store.share(Chosen(project=name), 0, dry_run=False)
        assert await ada.pusher.push() == Pushed(new=7)
        assert await desk.store.slugs() == names
        assert {status for _, status in ada.line.requests} == {200, 413}


async def test_of_several_processes_one_sends(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        await sharing(ada, *talk())
        other, refused = ada.another(), list[float]()

        async def meanwhile() -> None:
            with pytest.raises(LeaseLost):
                await other.push()
            refused.append(await other.round())

        async with anyio.create_task_group() as tasks:
            real = ada.line.handle_async_request

            async def slow(request: httpx2.Request) -> httpx2.Response:
                await meanwhile()
                # Forgetting does not let another process send beside this one.
                await ada.app.store.forget(ForgetRequest(match="says 5"), dry_run=False)
                await meanwhile()
                ada.line.handle_async_request = real  # type: ignore[method-assign]
                return await real(request)

            ada.line.handle_async_request = slow  # type: ignore[method-assign]
            tasks.start_soon(ada.pusher.push)
        assert refused == [LOOK_SECONDS] * 2
        assert len(await there(desk)) == 5


async def test_who_is_in_no_team_sends_nothing_and_is_told_nothing(tmp_path: Path) -> None:
    async with team_server(tmp_path / "server") as desk, laptop(tmp_path / "ada", desk) as ada:
        await sharing(ada, *talk())
        pushing_to = ada.app.settings.home / "team.json"
        pushing_to.unlink()
        assert (await ada.pusher.round(), await ada.pusher.try_push()) == (LOOK_SECONDS, {})
        assert await ada.pusher.facts() == {"joined": False, "waiting": 6}
        pushing_to.write_text("{}")
        assert "holds no account" in (await ada.pusher.facts())["trouble"]
        assert await ada.pusher.round() > 0
        assert "cannot be read" in team_problems(ada.app.settings, 0)[0].what
        assert ada.line.requests == []
