"""What every engine keeps of events that a client has copied into the file of another session: each once."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import anyio
import psycopg
import pytest

from mcp_memory.domain.events import Event, EventQuery, EventType, Intake
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.store.postgres.migrations import steps
from mcp_memory.store.postgres.store import PostgresStore
from tests.postgres import new_database
from tests.store.engines import Open, add, said, texts

pytestmark = pytest.mark.anyio


def line(text: str, number: int, session: str, *, kind: EventType = EventType.USER_MESSAGE, via: str = "") -> Event:
    """An event of a transcript's line; the line has the same name and time in every session that it is copied to."""
    uuid = f"{number:08d}-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
    event = said(text, number, session=session, kind=kind, name=f"line:{uuid}", via=via or "transcript")
    return replace(event, source_ids=(uuid,))


def session(name: str, *words: str) -> list[Event]:
    return [line(text, number, name) for number, text in enumerate(words)]


ORIGINAL = session("one", "Make the header blue.", "Make the footer green.")
RESUMED = session("two", "Make the header blue.", "Make the footer green.", "And the menu red.")


@pytest.mark.parametrize("first", [ORIGINAL, RESUMED], ids=["the original first", "the copy first"])
async def test_a_copied_event_is_stored_once_in_whatever_order_it_comes(opened: Open, first: list[Event]) -> None:
    second = RESUMED if first is ORIGINAL else ORIGINAL
    async with opened() as store:
        added = [await add(store, *first), await add(store, *second)]
        assert sum(added) == 3
        assert await texts(store, EventQuery()) == [event.text for event in RESUMED]
        assert await texts(store, EventQuery(session_id=first[0].session_id)) == [event.text for event in first]
        assert await add(store, *second) == await add(store, *first) == 0


async def test_a_session_tells_which_one_it_continues_until_that_is_forgotten(opened: Open) -> None:
    forked = replace(line("Go on.", 9, "three"), metadata={"via": "transcript", "forked_from": "one"})
    async with opened() as store:
        await store.add([Intake(tuple(events), "/home/ada/alpha") for events in (ORIGINAL, RESUMED)])
        await add(store, forked, line("Another thing.", 10, "four"))
        found = {name: await store.continues(name) for name in ("one", "two", "three", "four")}
        assert found == {"one": [], "two": ["one"], "three": ["one"], "four": []}
        await store.forget(ForgetRequest(session_id="one"), dry_run=False)
        assert await store.continues("two") == await store.continues("three") == []


async def test_a_copy_is_known_within_one_batch_and_in_a_trial(opened: Open) -> None:
    intakes = [Intake(tuple(events), "/home/ada/alpha") for events in (ORIGINAL, RESUMED)]
    async with opened() as store:
        trial = store.trial()
        assert [len(intake.events) for intake in await trial(intakes)] == [2, 1]
        assert await trial(intakes) == []
        assert await store.add(intakes) == 3


async def test_two_processes_that_read_original_and_copy_at_once_store_each_event_once(opened: Open) -> None:
    words = [f"Message {number}." for number in range(40)]
    counts: list[int] = []

    async with opened() as one, opened() as two, anyio.create_task_group() as tasks:

        async def take(index: int, name: str) -> None:
            events = session(name, *words)
            counts.extend([await add((one, two)[index], *events[start : start + 4]) for start in range(0, 40, 4)])

        tasks.start_soon(take, 0, "one")
        tasks.start_soon(take, 1, "two")
    async with opened() as store:
        assert sum(counts) == len(await store.log(0, None, 99)) == 40


PROMPT = "44444444-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
FROM_HOOK = replace(said("Go on.", 0.9, session="one", via="hook"), source_ids=(PROMPT,))


async def test_a_copy_of_what_only_a_hook_told_is_known_by_its_prompt(opened: Open) -> None:
    copy = line("Go on.", 1, "two")
    async with opened() as store:
        await add(store, FROM_HOOK)
        assert await add(store, replace(copy, metadata={"via": "transcript", "prompt_id": PROMPT})) == 0


async def test_a_copy_of_what_hook_and_transcript_told_is_known_by_its_line(opened: Open) -> None:
    async with opened() as store:
        counts = [await add(store, event) for event in (FROM_HOOK, line("Go on.", 1, "one"), line("Go on.", 1, "two"))]
    assert counts == [1, 0, 0]


async def test_a_copied_call_is_known_though_its_file_is_named_from_another_directory(opened: Open) -> None:
    kind = EventType.TOOL_RESULT
    result = "\n".join(f"{number} some source" for number in range(99))
    first, copy = (
        line(f"Read: svg.go\n{result}", 1, "one", kind=kind),
        line(f"Read: src/svg.go\n{result}", 1, "two", kind=kind),
    )
    other = line("Read: svg.go\nFile not found", 1, "three", kind=kind)
    async with opened() as store:
        assert [await add(store, event) for event in (first, copy, other)] == [1, 0, 1]


@pytest.mark.parametrize("forgotten", [False, True])
async def test_a_copied_script_is_known_though_an_earlier_version_kept_its_first_line_alone(
    opened: Open, forgotten: bool
) -> None:
    stored = line("Bash: cd src\ntotal 0", 1, "one", kind=EventType.TOOL_RESULT)
    copied = line("Bash: cd src\nls -l\ntotal 0", 1, "two", kind=EventType.TOOL_RESULT)
    copied = replace(copied, metadata={**copied.metadata, "call_lines": 2})
    async with opened() as store:
        assert await add(store, stored) == 1
        if forgotten:
            await store.forget(ForgetRequest(session_id="one"), dry_run=False)
        assert await add(store, copied) == 0


async def test_what_only_looks_like_a_copy_is_stored(opened: Open) -> None:
    first = line("Yes.", 1, "one")
    others = [
        line("No.", 1, "two"),
        replace(line("Yes.", 1, "three"), timestamp_ms=first.timestamp_ms + 200_000),
        line("Yes.", 1, "four", kind=EventType.ASSISTANT_MESSAGE),
        replace(line("Yes.", 1, "five"), client="codex"),
        replace(line("Yes.", 1, "six"), source_ids=("1",)),
        replace(line("Yes.", 1, "seven"), source_ids=()),
        replace(line("Yes.", 1, "eight"), source_ids=("1",)),
    ]
    async with opened() as store:
        assert await add(store, first, *others) == 8


async def test_two_sessions_keep_what_two_people_were_told_in_the_same_words(opened: Open) -> None:
    async with opened() as store:
        for author, name in (("ada", "one"), ("bob", "two")):
            events = tuple(session(name, "Make the header blue."))
            assert await store.add([Intake(events, "/home/ada/alpha", author=author)]) == 1


@pytest.mark.parametrize("copy_stored", [False, True], ids=["only the original", "the copy, too"])
async def test_what_was_forgotten_does_not_come_back_through_a_copy(opened: Open, copy_stored: bool) -> None:
    async with opened() as store:
        await add(store, *ORIGINAL)
        if copy_stored:
            await add(store, *RESUMED)
        await store.forget(ForgetRequest(session_id="one"), dry_run=False)
        await add(store, *RESUMED)
        assert await texts(store, EventQuery()) == ["And the menu red."]


async def test_what_one_person_has_forgotten_another_can_still_tell(opened: Open) -> None:
    async with opened() as store:
        for author, name in (("ada", "one"), ("bob", "two"), ("ada", "three")):
            added = await store.add([Intake(tuple(session(name, "Make it blue.")), "/home/ada/alpha", author=author)])
            assert added == (name != "three")
            await store.forget(ForgetRequest(session_id=name), dry_run=False)


async def test_an_event_forgotten_by_its_id_does_not_come_back_through_a_copy(opened: Open) -> None:
    async with opened() as store:
        await add(store, *ORIGINAL)
        await store.forget(ForgetRequest(event_key=ORIGINAL[0].key), dry_run=False)
        await add(store, *RESUMED)
        assert await texts(store, EventQuery()) == ["Make the footer green.", "And the menu red."]


async def test_a_long_name_of_a_line_keeps_no_server_from_an_upgrade() -> None:
    letters = random.Random(7)
    name = "".join(letters.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=20_000))
    url = new_database()
    async with PostgresStore.open(url) as store:
        await add(store, said("Mend the fence.", 1))
    with psycopg.connect(url) as earlier:
        earlier.execute("SET search_path = mcp_memory")
        earlier.execute("DROP INDEX event_source")
        earlier.execute("DROP TABLE continued")
        earlier.execute("UPDATE event SET source_ids = %s", (json.dumps([name]),))
        [step] = [text for _, file, text in steps() if "copies" in file]
        earlier.execute(step.encode())
    async with PostgresStore.open(url) as store:
        [event] = await store.events(EventQuery())
        assert event.source_ids == (name,)
