"""What was forgotten is refused when it comes again: on every engine, in whichever way it comes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mcp_memory.domain.events import Event, EventQuery, EventType, Intake, event_key
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.tombstones import TombstoneKey
from mcp_memory.pipeline.keep_forgotten import keep_forgotten
from mcp_memory.store.sql.database import Transaction
from mcp_memory.store.sqlite.keys import read_key
from tests.store.engines import LATER, START, Open, add, build, said, talk, texts
from tests.support import conversation, database_of, learn, memory

pytestmark = pytest.mark.anyio
PIN = "The PIN of the north gate is 4711."


def other_id(event: Event) -> Event:
    return replace(event, key=event_key(event.client, event.session_id, f"other {event.text}"))


def under(event: Event, session: str, client: str = "") -> Event:
    """The same line in another session, with another id."""
    return other_id(replace(event, session_id=session, client=client or event.client, metadata={}))


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(lambda event: event, id="the same import"),
        pytest.param(lambda event: under(event, "s2"), id="another session with other ids"),
        pytest.param(lambda event: under(event, "old-export", "jsonl"), id="an export without ids"),
        pytest.param(
            lambda event: replace(under(event, "s3"), timestamp_ms=event.timestamp_ms // 1000 * 1000),
            id="a time without milliseconds",
        ),
    ],
)
async def test_a_forgotten_line_is_refused_under_any_name(opened: Open, again: object) -> None:
    event = replace(said(PIN, 0, via="transcript"), timestamp_ms=START + 678)
    async with opened() as store:
        await add(store, event, said("Paint the gate green.", 1, via="transcript"))
        await store.forget(ForgetRequest(event_key=event.key), dry_run=False)
        assert callable(again)
        assert await add(store, again(event)) == 0
        assert await texts(store, EventQuery()) == ["Paint the gate green."]


async def test_the_same_words_at_another_time_or_by_someone_else_are_kept(opened: Open) -> None:
    event = said("Go on.", 0, via="transcript")
    async with opened() as store:
        await add(store, event, said("Paint the gate green.", 1))
        await store.forget(ForgetRequest(event_key=event.key), dry_run=False)
        reply = said("Go on.", 0, session="s9", kind=EventType.ASSISTANT_MESSAGE)
        assert await add(store, said("Go on.", 5, session="s9"), reply) == 2


async def test_the_title_of_a_fork_goes_with_the_session_that_it_copies(opened: Open) -> None:
    lines = [
        replace(said(text, number, via="transcript"), source_ids=(f"{number:08d}-aaaa-4aaa-8aaa-aaaaaaaaaaaa",))
        for number, text in enumerate([PIN, "I noted it."])
    ]
    title = said("The north gate", 1, session="fork", kind=EventType.SESSION_TITLE, source="custom-title")
    async with opened() as store:
        await add(store, *lines, said("Paint it.", 1, session="s2"))
        await store.forget(ForgetRequest(session_id="s1", only_stored=True), dry_run=False)
        assert await store.add([intake(*(under(line, "fork") for line in lines), title)]) == 0
        assert await texts(store, EventQuery(session_id="fork")) == []


def intake(*events: Event) -> Intake:
    return Intake(tuple(events), "/home/ada/alpha")


SCOPES = {
    "session": ForgetRequest(session_id="s1"),
    "project": ForgetRequest(project="alpha"),
    "before": ForgetRequest(before_ms=START + 60_000),
    "match": ForgetRequest(match="north gate"),
}


@pytest.mark.parametrize("way", SCOPES)
async def test_a_line_that_was_never_read_is_refused_if_it_is_dated_before(opened: Open, way: str) -> None:
    now_ms = START + 10 * 60_000
    unread = said("Beside the NORTH-gate there is a bell.", 0.5, session="s1")
    later = said("Beside the north gate there is a bell, too.", 11, session="s1")
    async with opened() as store:
        await add(store, said(PIN, 0))
        await add(store, said("Elsewhere.", 5, session="s5"), root="/home/ada/beta")
        await store.forget(SCOPES[way], dry_run=False, now_ms=now_ms)
        assert await add(store, unread) == 0
        assert await add(store, later) == 1
        assert (await add(store, said("Elsewhere, too.", 5.5, session="s5"), root="/home/ada/beta")) == 1
        [forgetting] = (await store.tombstones()).forgettings
        assert (forgetting.kind, forgetting.events, forgetting.at_ms) == (way, 1, now_ms)


@pytest.mark.parametrize("way", SCOPES)
async def test_with_only_stored_a_line_that_was_never_read_comes_in(opened: Open, way: str) -> None:
    async with opened() as store:
        await add(store, said(PIN, 0))
        await store.forget(replace(SCOPES[way], only_stored=True), dry_run=False, now_ms=LATER)
        assert await add(store, said("Beside the north gate there is a bell.", 0.5)) == 1
        assert await add(store, said(PIN, 0)) == 0


async def test_a_live_hook_is_heard_whatever_the_clock_says(opened: Open) -> None:
    async with opened() as store:
        await add(store, said(PIN, 0))
        await store.forget(ForgetRequest(session_id="s1"), dry_run=False, now_ms=LATER)
        assert await add(store, said("Now paint it.", 9, via="hook")) == 1


async def test_what_is_lifted_can_come_in_again_and_nothing_else(opened: Open) -> None:
    async with opened() as store:
        await add(store, said(PIN, 0), said("The bell is loud.", 1, session="s2"))
        for session in ("s1", "s2"):
            await store.forget(ForgetRequest(session_id=session), dry_run=False, now_ms=LATER)
        first, second = (await store.tombstones()).forgettings
        assert await store.lift(first.id) != await store.lift("nothing")
        back = [await add(store, said(PIN, 0)), await add(store, said("The bell is loud.", 1, session="s2"))]
        assert back == ([1, 0] if await texts(store, EventQuery(session_id="s1")) else [0, 1])
        assert (await store.tombstones()).forgettings == (second,)


@pytest.mark.parametrize("way", SCOPES)
async def test_an_older_state_of_the_memory_loses_what_was_forgotten_since(
    opened: Open, way: str, tmp_path: Path
) -> None:
    """The tombstones of a newer state are applied to one that never forgot anything."""
    named = replace(said("Paint it green.", 5, session="s2"), metadata={"files": ["north gate.py", "bell.py"]})
    async with memory(tmp_path / "newer") as app:
        await app.store.add([])
        await add(app.store, said(PIN, 0), *talk("s2", day=1), named)
        await app.store.forget(SCOPES[way], dry_run=False, now_ms=LATER)
        await keep_forgotten(app.store, app.inbox)
        rows, key, _ = await app.store.tombstone_rows()
    assert key is not None
    async with opened() as store:
        await add(store, said(PIN, 0), *talk("s2", day=1), named)
        await build(store)
        await use_key(store, key)
        found = await store.apply_tombstones(rows)
        await build(store)
        assert found.events == (4 if way == "project" else 1)
        left = [] if way == "project" else ["Paint it green.", *(event.text for event in talk())]
        assert await texts(store, EventQuery()) == left
        if way == "match":
            assert found.cleared == 1
            events = await store.events(EventQuery(session_id="s2"))
            assert [event.metadata["files"] for event in events if event.metadata] == [["bell.py"]]
        assert (await store.apply_tombstones(rows)).events == 0
        assert [project.slug for project in await store.projects()] == ([] if way == "project" else ["alpha"])


async def use_key(store: object, key: TombstoneKey) -> None:
    """Give a memory the key with which the tombstones were made, as both states of one memory have the same."""
    from mcp_memory.store.sqlite.keys import make_key
    from mcp_memory.store.sqlite.store import SqliteStore

    if isinstance(store, SqliteStore):
        make_key(store.database.path.parent, key)
        return

    def put(tx: Transaction) -> None:
        tx.make_tombstone_key()
        tx.run("UPDATE secret SET value = ?", (key.secret,))

    await store.database.write(put)  # type: ignore[attr-defined]


async def test_tombstones_tell_nothing_without_their_key(tmp_path: Path) -> None:
    """The same words leave other rows in another memory, and no row is a plain hash of them."""
    held = []
    for home in (tmp_path / "one", tmp_path / "two"):
        async with memory(home) as app:
            await add(app.store, said(PIN, 0, via="transcript"))
            await app.store.forget(ForgetRequest(match="4711"), dry_run=False, now_ms=LATER)
            tables = ("forgotten", "forgotten_words", "forgotten_name")
            held.append({key for name in tables for (key,) in await database_of(app).fetch(f"SELECT key FROM {name}")})
            assert read_key(home) is not None
    assert len(held[0]) == len(held[1]) > 3
    assert not held[0] & held[1]
    assert said(PIN, 0, via="transcript").key not in held[0] | held[1]


async def test_a_lost_key_is_reported_and_a_new_one_serves_from_then_on(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        await app.store.forget(ForgetRequest(match="token"), dry_run=False)
        assert not (await app.store.tombstones()).key_lost
    (tmp_path / "inbox.db").unlink()
    for name in tmp_path.glob("inbox.db-*"):
        name.unlink()
    async with memory(tmp_path) as app:
        assert (await app.store.tombstones()).key_lost
        await add(app.store, said(PIN, 0))
        await app.store.forget(ForgetRequest(match="4711"), dry_run=False)
        assert await add(app.store, said(PIN, 0)) == 0
