"""Forgetting by a text takes the same events on every engine: those that hold it when each is read by itself."""

from __future__ import annotations

import pytest

from mcp_memory.domain.events import EventQuery
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.matching import match_of
from tests.domain.test_matching import FOUND, NOT_FOUND
from tests.store.engines import Open, add, said

pytestmark = pytest.mark.anyio
HARD = [*FOUND, *NOT_FOUND]


async def test_a_scan_takes_what_holds_the_text_when_read_alone(opened: Open) -> None:
    async with opened() as store:
        texts = dict.fromkeys(
            [text for _, text in HARD] + ["PIER \\u0033\\u0031", "Nothing of it.", 'a "quoted\\nAnn" b']
        )
        await add(store, *[said(text, minute) for minute, text in enumerate(texts)])
        stored = await store.events(EventQuery())
        for sought in dict.fromkeys(sought for sought, _ in HARD):
            for part in (False, True):
                match, request = match_of(sought, part=part), ForgetRequest(match=sought, part=part)
                # An accent turns off the short way of the scan.
                expected = {event.key for event in stored if match.is_in(f"{event.text} \u00e9")}
                found, _ = await store.forget(request, dry_run=True)
                going = await store.events_to_forget(request, 1_000)
                assert {event.key for event in going} == expected, sought
                assert (found.events, set(found.first) <= expected) == (len(expected), True)


async def test_lines_that_hold_a_text_inside_of_words_are_counted_apart(opened: Open) -> None:
    async with opened() as store:
        await add(store, said("Ann cannot come.", 0), said("The annual plan, and Annex B.", 1), said("PIER-310", 2))
        found, _ = await store.forget(ForgetRequest(match="ann"), dry_run=True)
        assert (found.events, found.in_words, found.words) == (1, 1, ("annual", "Annex"))
        done, _ = await store.forget(ForgetRequest(match="pier-31"), dry_run=False)
        assert (done.events, done.in_words, done.words) == (0, 1, ("PIER-310",))
        assert len(await store.events(EventQuery())) == 3


async def test_paths_names_and_pages_go_by_whole_words_too(opened: Open) -> None:
    async with opened() as store:
        kept, cleared = said("One.", 0, cwd="/home/ada/pier-310"), said("Two.", 1, cwd="/home/ada/pier-31/app")
        await add(store, kept, cleared, *[said(f"PIER-31 is page {minute}.", minute) for minute in range(2, 8)])
        request = ForgetRequest(match="PIER-31")
        pages = [await store.events_to_forget(request, 4, offset) for offset in (0, 4)]
        assert [len(page) for page in pages] == [4, 2]
        assert len({event.key for page in pages for event in page}) == 6
        done, _ = await store.forget(request, dry_run=False)
        assert (done.events, done.cleared) == (6, 1)
        assert [event.metadata.get("cwd") for event in await store.events(EventQuery())] == ["/home/ada/pier-310", None]
