"""What every engine must keep of sharing: private by default, what a rule shares, and what waits for the server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcp_memory.domain.events import EventQuery, EventType, Intake
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.toc import Level
from mcp_memory.errors import NotFound, UsageError
from mcp_memory.store.port import Store
from mcp_memory.store.sharing_port import Amount, Chosen, SharedPart, Waiting
from tests.store.engines import START, Open, add, build, said, talk

pytestmark = pytest.mark.anyio
ALPHA, MINUTE, LONG = Chosen(project="alpha"), 60_000, 1 << 40
NOTHING = Waiting(0, 0, 0)


async def team(store: Store) -> list[str]:
    """What is the team's, in the order in which it was said."""
    return [event.text for event in await store.events(EventQuery()) if event.visibility == "team"]


async def sent(store: Store) -> list[str]:
    """Take all that waits to be sent, as the server's answer allows."""
    found = await store.to_push(1000, LONG)
    await store.pushed([number for number, _ in found])
    return [event.text for _, event in found]


async def test_nothing_is_shared_until_it_is_and_from_then_on_all_but_notes(opened: Open) -> None:
    async with opened() as store:
        await add(store, said("before", 1))
        assert (await team(store), await store.shared(), await store.waiting()) == ([], [], NOTHING)
        assert await store.share(ALPHA, START + 2 * MINUTE, dry_run=True) == Amount(0, 0)
        assert await store.shared() == []
        await store.share(ALPHA, START + 2 * MINUTE, dry_run=False)
        await add(store, said("after", 3), said("note", 4, kind=EventType.NOTE), said("late", 1.5))
        await add(store, said("was a note", 5, session="notes:/home/ada/alpha"), said("own", 6, session="s2"))
        await add(store, said("other", 7, session="s3"), root="/home/ada/beta")
        assert await team(store) == ["after", "own"]
        assert await store.shared() == [SharedPart("alpha", "", START + 2 * MINUTE, 2, 2, 2)]
        assert (await store.waiting(), await sent(store)) == (Waiting(2, 0, 0), ["after", "own"])
        assert await store.waiting() == NOTHING


async def test_sharing_since_a_time_offers_what_was_said_and_a_later_time_takes_nothing_away(opened: Open) -> None:
    async with opened() as store:
        await add(store, *(said(f"{minute}", minute) for minute in range(4)))
        assert await store.share(ALPHA, START + 2 * MINUTE, dry_run=True) == Amount(1, 2)
        assert await store.share(ALPHA, START + 2 * MINUTE, dry_run=False) == Amount(1, 2)
        assert await store.share(ALPHA, START + 3 * MINUTE, dry_run=False) == Amount(0, 0)
        assert await store.share(ALPHA, START + MINUTE, dry_run=False) == Amount(1, 1)
        assert (await store.shared())[0].since_ms == START + MINUTE
        assert await sent(store) == ["1", "2", "3"]
        with pytest.raises(NotFound):
            await store.share(Chosen(project="nowhere"), 0, dry_run=True)


async def test_one_session_is_shared_or_kept_private_by_itself(opened: Open) -> None:
    async with opened() as store:
        await add(store, said("one", 1), said("two", 2, session="s2"))
        await store.share(Chosen(session_id="s1"), 0, dry_run=False)
        await add(store, said("one more", 3), said("two more", 4, session="s2"))
        assert await team(store) == ["one", "one more"]
        await store.unshare(Chosen(session_id="s1"), dry_run=False)
        await store.share(ALPHA, 0, dry_run=False)
        await add(store, said("one again", 5), said("two again", 6, session="s2"))
        assert await team(store) == ["two", "two more", "two again"]
        assert [(part.session_id, part.since_ms) for part in await store.shared()] == [("", 0), ("s1", None)]
        # The session goes on after all of it was forgotten, and is as private as before.
        await store.forget(ForgetRequest(session_id="s1"), dry_run=False)
        await add(store, said("one anew", 7))
        assert "one anew" not in await team(store)
        await add(store, said("note", 8, session="notes:/x", kind=EventType.NOTE))
        for name, error in (("notes:/x", UsageError), ("nothing", NotFound)):
            with pytest.raises(error):
                await store.share(Chosen(session_id=name), 0, dry_run=False)


async def test_what_is_taken_back_waits_to_be_withdrawn_and_can_be_shared_again(opened: Open) -> None:
    async with opened() as store:
        await add(store, said("one", 1), said("two", 2))
        await store.share(ALPHA, 0, dry_run=False)
        # No server has anything yet.
        assert await store.unshare(ALPHA, dry_run=True) == await store.unshare(ALPHA, dry_run=False) == Amount(1, 2)
        assert (await store.waiting(), await store.shared()) == (NOTHING, [])
        await store.join_team("server")
        await store.share(ALPHA, 0, dry_run=False)
        assert await sent(store) == ["one", "two"]
        await store.unshare(ALPHA, dry_run=False)
        assert (await team(store), await store.waiting()) == ([], Waiting(0, 2, 0))
        keys, forget = await store.to_withdraw(10)
        assert (len(keys), forget) == (2, False)
        await store.share(ALPHA, START + 2 * MINUTE, dry_run=False)
        assert await store.waiting() == Waiting(1, 1, 0)
        await store.withdrawn(keys, forget=False)
        assert await store.waiting() == Waiting(1, 0, 0)
        await add(store, said("three", 3))
        assert await sent(store) == ["two", "three"]


async def test_forgetting_what_was_shared_waits_for_the_server_whatever_was_taken_back(opened: Open) -> None:
    async with opened() as store:
        await store.join_team("server")
        await add(store, *(said(f"number {minute}", minute) for minute in range(4)))
        await store.share(ALPHA, START + MINUTE, dry_run=False)
        await sent(store)
        first, second, *_ = await store.events(EventQuery())
        await store.forget(ForgetRequest(event_key=first.key), dry_run=False)
        assert await store.waiting() == NOTHING
        await store.forget(ForgetRequest(event_key=second.key), dry_run=False)
        await store.unshare(ALPHA, dry_run=False)
        assert await store.waiting() == Waiting(0, 2, 1)
        keys, forget = await store.to_withdraw(10)
        assert (keys, forget) == ([second.key], True)
        left, _ = await store.to_withdraw(10)
        await store.withdrawn(keys, forget=True)
        taken, _ = await store.to_withdraw(10)
        await store.forget(ForgetRequest(match="number 3"), dry_run=False)
        assert await store.waiting() == Waiting(0, 1, 1)
        # The answer to what was asked before does not say that the server has forgotten it.
        await store.withdrawn(taken, forget=False)
        assert (await store.waiting(), len(left)) == (Waiting(0, 0, 1), 1)


async def test_what_waits_is_not_sent_once_it_is_forgotten(opened: Open) -> None:
    async with opened() as store:
        await add(store, said("one", 1), said("two", 2))
        await store.share(ALPHA, 0, dry_run=False)
        await store.forget(ForgetRequest(match="one"), dry_run=False)
        assert await store.waiting() == Waiting(1, 0, 0)
        assert await sent(store) == ["two"]
        await store.share(ALPHA, 0, dry_run=False)
        await store.forget(ForgetRequest(project="alpha"), dry_run=False)
        await add(store, said("anew", 3))
        assert (await team(store), await store.shared()) == ([], [])


async def test_a_name_that_is_forgotten_goes_from_what_the_server_has(opened: Open) -> None:
    async with opened() as store:
        await store.join_team("server")
        await add(store, said("one", 1, cwd="/secret/place"))
        await store.share(ALPHA, 0, dry_run=False)
        await sent(store)
        await store.forget(ForgetRequest(match="/secret/place"), dry_run=False)
        assert await store.waiting() == Waiting(1, 1, 0)
        [(_, event)] = await store.to_push(10, LONG)
        assert event.metadata == {}


async def test_what_is_private_is_summarized_in_one_s_own_memory_whatever_is_shared(opened: Open) -> None:
    async with opened() as store:
        await store.join_team("server")
        await add(store, *talk())
        await store.share(ALPHA, 0, dry_run=False)
        await add(store, *talk("s2", 1), root="/home/ada/beta")
        await build(store)
        days = await store.nodes(NodeQuery(level=Level.DAY))
        assert sorted(day.project for day in days) == ["alpha", "beta"]


async def test_a_portion_is_bounded_by_events_and_by_characters(opened: Open) -> None:
    async with opened() as store:
        await add(store, *(said("x" * size, minute) for minute, size in enumerate((50, 10, 10, 10))))
        await store.share(ALPHA, 0, dry_run=False)
        sizes = []
        while found := await store.to_push(2, 25):
            sizes.append([len(event.text) for _, event in found])
            await store.pushed([number for number, _ in found])
        assert sizes == [[50], [10, 10], [10]]
        assert await store.push_again() == 4
        assert len(await sent(store)) == 4


async def test_another_server_is_offered_all_and_told_nothing_of_what_the_first_one_had(opened: Open) -> None:
    async with opened() as store:
        await store.join_team("first")
        await add(store, said("one", 1), said("two", 2))
        await store.share(ALPHA, 0, dry_run=False)
        await sent(store)
        await store.forget(ForgetRequest(match="one"), dry_run=False)
        await store.join_team("first")
        assert await store.waiting() == Waiting(0, 0, 1)
        await store.join_team("second")
        assert await store.waiting() == Waiting(1, 0, 0)


async def test_a_merge_shares_nothing_that_was_private(opened: Open) -> None:
    async with opened() as store:
        await add(store, said("alpha", 1))
        await add(store, said("beta", 2, session="s2"), root="/home/ada/beta")
        await store.share(ALPHA, 0, dry_run=False)
        await store.merge("beta", "alpha")
        # Also what the private session says later, and what of it is imported later.
        await add(store, said("beta more", 3, session="s2"), said("beta old", 0.5, session="s2"))
        await add(store, said("new", 4, session="s4"), root="/home/ada/beta")
        assert await team(store) == ["alpha", "new"]
        await add(store, said("gamma", 5, session="s5"), root="/home/ada/gamma")
        await store.merge("alpha", "gamma")
        await add(store, said("later", 6, session="s6"))
        assert await team(store) == ["alpha", "new"]
        assert [(part.project, part.since_ms, part.events) for part in await store.shared()][0] == ("gamma", None, 2)


async def test_renaming_a_shared_project_changes_nothing_and_what_is_split_off_is_private(opened: Open) -> None:
    remote = "github.com/acme/shop"
    async with opened() as store:
        await store.add([Intake((said("one", 1),), "/a/alpha", "", remote)])
        await store.add([Intake((said("two", 2, session="s2"),), "/b/beta", "", remote)])
        [slug] = await store.slugs()
        await store.share(Chosen(project=slug), START + 2 * MINUTE + 1, dry_run=False)
        await store.rename(slug, "store")
        await add(store, said("three", 3), said("four", 4, session="s2"))
        assert await team(store) == ["three", "four"]
        await store.split("store", ["/b/beta"])
        await add(store, said("five", 5), said("six", 6, session="s2"))
        assert await team(store) == ["three", "four", "five"]


async def test_lines_that_a_transcript_tells_later_are_sent_too(opened: Open) -> None:
    async with opened() as store:
        event = said("one", 1, name="n1", via="hook")
        await add(store, event)
        await store.share(ALPHA, 0, dry_run=False)
        await sent(store)
        await add(store, replace(event, source_ids=("line-1",), metadata={"via": "transcript"}))
        [(_, again)] = await store.to_push(10, LONG)
        assert again.source_ids == ("line-1",)
