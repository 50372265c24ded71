"""Transcripts that take longer to read than a lease lasts, and files that no reader can cope with."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mcp_memory.app import App
from mcp_memory.clients.port import BadLine, Client, Reading, TranscriptState
from mcp_memory.domain.events import Captured, EventQuery
from mcp_memory.errors import LeaseLost
from mcp_memory.pipeline import loop
from mcp_memory.pipeline.importing import import_files
from mcp_memory.pipeline.ingest import PORTION, checkpoint_name, ingest
from mcp_memory.store.port import Share
from tests.support import database_of, memory

pytestmark = pytest.mark.anyio
MINUTES = count(1_772_000_000_000, 60_000)


def transcript(path: Path, lines: int, chars: int = 200) -> Path:
    """What Claude Code would have written."""
    with path.open("w") as file:
        for number in range(lines):
            text = f"Pear {number} of the orchard. " + "It is weighed and graded. " * (chars // 26)
            moment = f"2026-03-02T{9 + number // 3600 % 12:02}:{number // 60 % 60:02}:{number % 60:02}.000Z"
            line = {
                "type": "user" if number % 2 == 0 else "assistant",
                "uuid": f"u{number}",
                "sessionId": path.stem,
                "timestamp": moment,
                "cwd": "/projects/orchard",
                "message": {"role": "user" if number % 2 == 0 else "assistant", "content": text},
            }
            file.write(json.dumps(line) + "\n")
    return path


async def stopped(app: App, path: Path) -> None:
    """A turn of this transcript's session has ended."""
    payload = {"hook_event_name": "Stop", "session_id": path.stem, "transcript_path": str(path)}
    await app.inbox.post([(next(MINUTES), "claude-code", "/projects/orchard", "", json.dumps(payload))])


class Around:
    """The reader of Claude Code's transcripts, with something that happens at each event."""

    name = "claude-code"

    def __init__(self, adapter: Client) -> None:
        self._adapter = adapter

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Reading:
        return self._adapter.hook(payload, received_ms)

    def read(self, path: Path, state: TranscriptState) -> Iterator[Captured | BadLine]:
        for item in self._adapter.read(path, state):
            if isinstance(item, Captured):
                self.at(path, int(item.text.split()[1]))
            yield item

    def at(self, path: Path, number: int) -> None:
        raise NotImplementedError


def read_by(app: App, around: type[Around]) -> None:
    app.pipeline.clients["claude-code"] = around(app.pipeline.clients["claude-code"])  # type: ignore[assignment]


async def pears(app: App) -> dict[str, int]:
    """How many lines of each transcript are stored."""
    rows = await database_of(app).fetch(
        "SELECT s.session_id, count(*) FROM event e JOIN session s ON s.id = e.session WHERE e.text LIKE 'Pear %' "
        "GROUP BY s.session_id"
    )
    return dict(rows)


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
async def test_two_servers_with_a_short_lease_store_a_large_transcript_once(tmp_path: Path) -> None:
    lines = 90 * PORTION
    path = transcript(tmp_path / "large.jsonl", lines, chars=1_000)
    home = tmp_path / "home"
    async with memory(home) as one, memory(home) as two:
        for number, app in enumerate((one, two)):
            app.pipeline.lease.duration = 0.2  # type: ignore[attr-defined]
            app.pipeline.lease.holder = f"elsewhere:{number}"  # type: ignore[attr-defined]
        await stopped(one, path)
        with anyio.fail_after(120):
            async with anyio.create_task_group() as servers:
                servers.start_soon(one.pipeline.run)
                servers.start_soon(two.pipeline.run)
                while (await one.inbox.counts()).waiting:
                    for app in (one, two):
                        app.pipeline.wake.set()  # as a hook's next row would
                    await anyio.sleep(0.05)
                servers.cancel_scope.cancel()
        [(events, texts)] = await database_of(one).fetch(
            "SELECT count(*), count(DISTINCT text) FROM event WHERE text LIKE 'Pear %'"
        )
    assert (events, texts) == (lines, lines)


async def test_a_transcript_is_stored_portion_by_portion_while_it_is_read(tmp_path: Path) -> None:
    """Whoever is stopped half way leaves the next one what was read, and the place to go on from."""
    path = transcript(tmp_path / "large.jsonl", 4 * PORTION)
    home = tmp_path / "home"
    async with memory(home) as one, memory(home) as two:
        two.pipeline.lease.holder = "elsewhere:1"  # type: ignore[attr-defined]

        class Overtaken(Around):
            def at(self, path: Path, number: int) -> None:
                if number == 3 * PORTION:
                    database_of(two).write_here(lambda tx: tx.run("UPDATE lease SET token = token + 1, expires_ms = 0"))

        read_by(one, Overtaken)
        await stopped(one, path)
        with pytest.raises(LeaseLost):
            await one.pipeline.until_idle()
        stored = await pears(one)
        position = await two.inbox.checkpoint(checkpoint_name(path))
        await two.pipeline.until_idle()
        assert (await two.inbox.counts()).waiting == 0
        assert await pears(two) == {"large": 4 * PORTION}
    assert stored == {"large": 3 * PORTION}
    assert 0 < position["offset"] < path.stat().st_size


@pytest.mark.usefixtures("engine")
async def test_a_round_ends_in_time_and_the_next_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = transcript(tmp_path / "large.jsonl", 5 * PORTION)
    monkeypatch.setattr(loop, "ROUND_SECONDS", 0.0)
    async with memory(tmp_path / "home") as app:
        await stopped(app, path)
        assert await app.pipeline.lease.acquire()
        first = await app.pipeline.round()
        waiting = (await app.inbox.counts()).waiting
        assert (first.more, waiting) == (True, 1)
        assert 0 < (await pears(app))["large"] < 5 * PORTION
        await app.pipeline.until_idle()
        assert (await app.inbox.counts()).waiting == 0
        assert await pears(app) == {"large": 5 * PORTION}


async def test_a_server_can_answer_while_it_condenses_a_large_session(tmp_path: Path) -> None:
    path = transcript(tmp_path / "large.jsonl", 4 * PORTION, chars=600)
    async with memory(tmp_path / "home") as app:
        await stopped(app, path)
        assert await app.pipeline.lease.acquire()
        await ingest(app.store, app.inbox, app.pipeline.clients, app.intaker, Share(app.pipeline.lease, math.inf))
        [account] = await app.store.accounts_due(app.clock.now_ms(), 9)
        events = await app.store.events(EventQuery(session_id=account.session_id, through=account.turns[-1].place))
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(others)
            await app.pipeline.compactor.share(account, None, events, None)
            tasks.cancel_scope.cancel()
    assert turns >= len(app.pipeline.compactor.parts(events)) > 5


async def test_a_file_whose_reader_fails_is_set_aside_and_the_others_are_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    odd, even = transcript(tmp_path / "odd.jsonl", 9), transcript(tmp_path / "even.jsonl", 9)

    class Failing(Around):
        tried = 0
        cured = False

        def at(self, path: Path, number: int) -> None:
            if path.stem == "odd" and number == 4 and not Failing.cured:
                Failing.tried += 1
                raise TypeError("a word of the file: pomegranate")

    async with memory(tmp_path / "home") as app:
        read_by(app, Failing)
        for path in (odd, even):
            await stopped(app, path)
        await app.pipeline.until_idle()
        failed = (await app.inbox.checkpoint(checkpoint_name(odd)))["failed"]
        assert await pears(app) == {"odd": 4, "even": 9}
        assert failed["reason"].startswith("its reader failed (TypeError in test_large_transcripts.py:")
        assert failed["line"] == 5
        assert str(odd) in caplog.text
        assert "pomegranate" not in caplog.text + json.dumps(failed)
        # It is tried again when it has changed, and only then.
        await stopped(app, odd)
        await app.pipeline.until_idle()
        assert Failing.tried == 1
        with odd.open("a") as file:
            file.write("\n")
        await stopped(app, odd)
        await app.pipeline.until_idle()
        assert Failing.tried == 2
        Failing.cured = True
        with odd.open("a") as file:
            file.write("\n")
        await stopped(app, odd)
        await app.pipeline.until_idle()
        assert await pears(app) == {"odd": 9, "even": 9}
        assert "failed" not in await app.inbox.checkpoint(checkpoint_name(odd))


async def test_an_import_goes_on_after_a_file_whose_reader_fails(tmp_path: Path) -> None:
    odd, even = transcript(tmp_path / "odd.jsonl", 9), transcript(tmp_path / "even.jsonl", 9)

    class Failing(Around):
        def at(self, path: Path, number: int) -> None:
            if path.stem == "odd" and number == 4:
                raise KeyError("pomegranate")

    async with memory(tmp_path / "home") as app:
        read_by(app, Failing)
        adapter = app.pipeline.clients["claude-code"]
        for new in (13, 0):
            result = await import_files(app.store, app.inbox, [(adapter, odd), (adapter, even)], app.intaker)
            assert result.events_new == new
            assert [(bad.path, bad.line) for bad in result.skipped] == [(str(odd), 5)]
            assert "its reader failed (KeyError" in result.skipped[0].reason
