"""The loop: one odd thing does not stop the rest, and idle servers do not write."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_memory.app import App
from mcp_memory.capture.inbox import Row, spool
from mcp_memory.capture.redaction import Clean
from mcp_memory.clients.port import Reading
from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import SegmentSummary
from mcp_memory.errors import LeaseLost
from mcp_memory.pipeline.loop import RETRY_SECONDS, TIMER_SECONDS, pause_after
from mcp_memory.pipeline.segment import PORTION
from mcp_memory.store.inbox_port import Payload
from mcp_memory.store.sql.database import Transaction
from mcp_memory.summaries import ExtractiveSummarizer
from tests.support import all_nodes, conversation, database_of, learn, memory, tell

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("engine")]


class Refusing(ExtractiveSummarizer):
    """Cannot cope with one session."""

    async def segment(self, events: Sequence[Event], context: Sequence[Event]) -> SegmentSummary:
        if events[0].session_id == "odd":
            raise RecursionError("too odd")
        return await super().segment(events, context)


async def test_a_segment_that_cannot_be_summarized_keeps_no_other_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with memory(tmp_path) as app:
        app.pipeline.summarizer = Refusing()
        await learn(app, [*conversation(session="odd"), *conversation("2026-03-03", session="even")])
        assert {node.session_id for node in await all_nodes(app) if node.session_id} == {"even"}
        assert "could not be summarized" in caplog.text
        app.pipeline.summarizer = ExtractiveSummarizer()
        await app.store.retry_failures(all_versions=True)
        await learn(app, [])
        assert {node.session_id for node in await all_nodes(app) if node.session_id} == {"odd", "even"}


async def test_a_process_that_loses_its_lease_while_it_summarizes_loses_and_doubles_nothing(tmp_path: Path) -> None:
    days = [f"2026-03-{day:02}" for day in range(1, PORTION + 5)]
    async with memory(tmp_path) as app, memory(tmp_path) as other:

        class Overtaken(ExtractiveSummarizer):
            """Another process takes over while the second portion is summarized."""

            async def segment(self, events: Sequence[Event], context: Sequence[Event]) -> SegmentSummary:
                if events[0].session_id == days[-2]:
                    await database_of(other).write(
                        Transaction.run, "UPDATE lease SET token = token + 1, expires_ms = 0"
                    )
                return await super().segment(events, context)

        app.pipeline.summarizer = Overtaken()
        await tell(app, [line for day in days for line in conversation(day, session=day)])
        with pytest.raises(LeaseLost):
            await app.pipeline.until_idle()
        saved = len(await all_nodes(app))
        assert saved in (0, PORTION)
        await other.pipeline.until_idle()
        nodes = [node for node in await all_nodes(other) if node.session_id]
    assert sorted(str(node.session_id) for node in nodes) == days
    assert {node.version for node in nodes} == {1}


async def test_a_payload_that_breaks_its_adapter_is_kept_and_the_next_one_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with memory(tmp_path) as app:
        adapter = app.pipeline.clients["claude-code"]

        class Breaking:
            name = "claude-code"

            def hook(self, payload: Mapping[str, Any], received_ms: int) -> Reading:
                if payload.get("prompt") == "odd":
                    raise KeyError("odd")
                return adapter.hook(payload, received_ms)

        app.pipeline.clients["claude-code"] = Breaking()  # type: ignore[assignment]
        for number, prompt in enumerate(("odd", "even")):
            payload = {"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": prompt, "prompt_id": prompt}
            await app.inbox.post([(number, "claude-code", "/projects/x", "", json.dumps(payload))])
        await app.pipeline.until_idle()
        local, events = await app.inbox.counts(), (await app.store.counts()).events
    assert (events, local.unknown, local.waiting) == (1, 1, 0)


async def quiet(app: App) -> int:
    """The number of the last write of others, once it has been heard of."""
    before = -1
    while before != (before := await database_of(app).data_version()):
        await anyio.sleep(0.3)
    return before


async def test_an_idle_loop_writes_nothing(tmp_path: Path) -> None:
    async with memory(tmp_path) as app, memory(tmp_path) as other:
        await learn(app, conversation())
        before = await quiet(other)
        async with anyio.create_task_group() as group:
            group.start_soon(app.pipeline.run)
            for _ in range(20):
                await anyio.sleep(0.05)
                app.pipeline.wake.set()
            group.cancel_scope.cancel()
        assert await quiet(other) == before


async def test_there_is_work_exactly_while_a_stage_would_find_some(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        assert not await app.pipeline.waits()
        await tell(app, conversation())
        assert await app.pipeline.waits()
        await app.pipeline.until_idle()
        assert not await app.pipeline.waits()
        app.settings.spool.mkdir()
        (app.settings.spool / "1-1-a.json").write_text("{}")
        assert await app.pipeline.waits()


@pytest.mark.slow
async def test_a_full_disk_is_told_once_and_what_is_spooled_is_stored_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": "Mend the kite."}
    async with memory(tmp_path) as app, memory(tmp_path) as other, anyio.create_task_group() as tasks:
        full = "CREATE TRIGGER full BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        await (await other.inbox.database()).write(Transaction.run, full)
        spool(str(tmp_path), Row(1_772_000_000_000, "claude-code", "/home/ada/kite", "", Clean(json.dumps(prompt))))
        tried = 0

        async def post(rows: Iterable[Payload]) -> None:
            nonlocal tried
            tried += 1
            await usual(rows)

        usual, app.inbox.post = app.inbox.post, post  # type: ignore[method-assign]
        tasks.start_soon(app.pipeline.run)
        with anyio.fail_after(20):
            while tried < 2:
                await anyio.sleep(0.01)
            before = tried
            # Many turns of a loop that would not wait.
            await anyio.sleep(0.5)
            assert tried - before <= 1
            assert caplog.text.count("disk is full") == 1
            await (await other.inbox.database()).write(Transaction.run, "DROP TRIGGER full")
            while not await database_of(other).value("SELECT count(*) FROM event"):
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert not list((tmp_path / "spool").iterdir())


async def test_what_fails_for_days_is_tried_ever_more_seldom_and_never_given_up() -> None:
    pauses = [pause_after(failures) for failures in range(1, 5_000)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (2 * RETRY_SECONDS, TIMER_SECONDS)
    assert pause_after(0) == TIMER_SECONDS


async def test_what_is_shared_is_sent_beside_the_work_as_often_as_it_asks_for(tmp_path: Path) -> None:
    async with memory(tmp_path) as app, anyio.create_task_group() as tasks:
        looked, enough = list[int](), anyio.Event()

        async def push() -> float:
            looked.append(await app.store.changes())
            if len(looked) == 3:
                enough.set()
            return 0.0 if len(looked) < 3 else 1e6

        app.pipeline.push = push
        tasks.start_soon(app.pipeline.run)
        with anyio.fail_after(20):
            await enough.wait()
        tasks.cancel_scope.cancel()
