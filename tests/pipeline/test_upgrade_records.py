"""Records with a model: the extractive one is there at once, and the model's takes its place, at the price of one."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from mcp_memory.app import App, open_app
from mcp_memory.config import Calendar, Compaction, Settings, SummarizerSettings
from mcp_memory.domain.records import Record, body_text
from mcp_memory.pipeline import compact, upgrade
from mcp_memory.store.sql.records import forget_records
from tests.models.scripted import KEY, Asked, Http, Said, Scripted, honest, scripted
from tests.pipeline.test_compact import all_records, before_forgetting, chain, talk
from tests.pipeline.test_upgrade import SIGNED, settle, upgrades
from tests.support import StoppedClock, database_of, learn, said, store_of

pytestmark = pytest.mark.anyio
DURING = "2026-03-02T10:00:00Z"


@asynccontextmanager
async def opened(
    home: Path,
    model: Scripted,
    clock: StoppedClock | None = None,
    *,
    lengths: str = "tiny=2048",
    max_depth: int = 3,
    **more: Any,
) -> AsyncIterator[App]:
    base: dict[str, Any] = {"kind": "openai", "model": "test-model", "daily_token_cap": 10_000_000}
    chosen = SummarizerSettings(**(base | {"base_url": model.openai_url} | more))
    settings = Settings(
        home=home,
        calendar=Calendar("UTC"),
        summarizer=chosen,
        compaction=Compaction(context_lengths=lengths, max_depth=max_depth),
        api_key=KEY,
        store=store_of(home),
    )
    async with open_app(settings, cwd=home, clock=clock or StoppedClock(DURING)) as app:
        assert app.caller
        app.caller.tries = 1
        yield app


async def calls(app: App) -> list[tuple[Any, ...]]:
    return await database_of(app).fetch("SELECT purpose, node FROM llm_call WHERE purpose LIKE 'session%' ORDER BY id")


def records_of(model: Scripted) -> list[Asked]:
    """What was asked for records; segments that are finished meanwhile go to the model as well."""
    return [asked for asked in model.asked if asked.form == "record"]


@pytest.mark.usefixtures("engine")
async def test_the_record_is_there_at_once_and_the_model_writes_it_anew(tmp_path: Path) -> None:
    with scripted(honest) as model:
        async with opened(tmp_path, model) as app:
            await learn(app, talk(0, 16))
            (first,) = await chain(app)
            assert model.asked == []  # no stage waits for a model
            assert first.written_by == "extractive"
            await settle(app)
            (second,) = await chain(app)
            text = await (await app.inbox.database()).value("SELECT text FROM brief WHERE root LIKE 'session:%:s1'")
            made = await calls(app)
            again = await settle(app)
    assert second.written_by == SIGNED
    assert (second.refreshes, second.depth, second.reason) == (first.id, 0, "trigger")
    assert second.event_ids == first.event_ids
    assert (second.seen, second.through, second.messages) == (first.seen, first.through, first.messages)
    assert second.tokens_after - second.tokens == first.tokens_after - first.tokens
    assert second.body.summary == "The model tells of 10 messages."
    assert any(point.startswith("It was said: Message 0") for point in second.body.key_points)
    assert "The model tells of 10 messages." in text  # what the hook prints follows
    assert made == [("session", "session:s1")]
    assert again == 0
    assert len(records_of(model)) == 1


async def test_what_the_rules_find_stays_beside_what_the_model_says(tmp_path: Path) -> None:
    def terse(asked: Asked) -> object:
        item = {"task": "Ask Mira about the ledger", "owner": "user", "due": "Friday"}
        lists = {"key_points": [], "decisions": ["They went with Postgres over MySQL."], "action_items": [item]}
        more = {"unresolved": ["Whether 250 ms are enough"], "entities": ["InvoiceExporter"]}
        return {"summary": "An account.", **lists, **more} if asked.form == "record" else honest(asked)

    with scripted(terse) as model:
        async with opened(tmp_path, model) as app:
            lines = talk(0, 16)
            lines[1]["text"] = "We decided to use `queue_v2` instead of polling, because polling costs 40% CPU."
            await learn(app, lines)
            (extractive,) = await chain(app)
            await settle(app)
            (record,) = await chain(app)
    context = record.body.context
    assert context.decisions[0] == "They went with Postgres over MySQL."
    assert set(extractive.body.context.decisions) <= set(context.decisions)
    assert any("queue_v2" in decision for decision in context.decisions)
    assert context.unresolved[0] == "Whether 250 ms are enough"
    assert ("Ask Mira about the ledger", "user", "Friday") in [
        (item.task, item.owner, item.due) for item in context.action_items
    ]
    assert "InvoiceExporter" in context.domain_entities
    assert context.participants == extractive.body.context.participants


@pytest.mark.usefixtures("engine")
async def test_a_client_that_forgets_gets_its_record_without_waiting_and_the_models_later(tmp_path: Path) -> None:
    payload = before_forgetting(tmp_path)
    with scripted(honest) as model:
        async with opened(tmp_path / "home", model) as app:
            await app.inbox.post([(1_772_442_600_000, "claude-code", str(tmp_path), "", json.dumps(payload))])
            await app.pipeline.until_idle()
            (first,) = await chain(app, "s9")
            assert (first.reason, first.written_by, model.asked) == ("client", "extractive", [])
            await settle(app)
            (second,) = await chain(app, "s9")
    assert (second.reason, second.written_by) == ("client", SIGNED)


async def test_the_record_before_is_told_with_every_part_however_long(tmp_path: Path) -> None:
    with scripted(honest) as model:
        async with opened(tmp_path, model, lengths="tiny=60000") as app:
            lines = talk(0, 20)
            lines[1]["text"] = "We decided to call the gateway Zorvan-7 instead of Hub."
            await learn(app, lines)
            await app.pipeline.compactor.compact("s1", force=True)
            model.asked.clear()
            await learn(app, talk(20, 30, "word " * 1_000))
            assert (await app.pipeline.compactor.compact("s1", force=True)).record
            made = await calls(app)
    parts = records_of(model)
    assert len(parts) > 2
    assert all("Zorvan-7" in asked.earlier for asked in parts)
    first, second, *_ = (asked.earlier.splitlines()[0] for asked in parts)
    assert second.startswith(first)
    assert len(second) > len(first)  # what the part before has added
    assert made[-1] == ("session merge", "session:s1")


@pytest.mark.slow
async def test_a_long_record_has_one_account_of_all_its_parts(tmp_path: Path) -> None:
    def numbered(asked: Asked) -> object:
        if asked.form == "prose":
            return {"summary": f"One account of {asked.material.count('Section')} sections. " + "More. " * 300}
        return honest(asked)

    with scripted(numbered) as model:
        async with opened(tmp_path, model, lengths="tiny=50000") as app:
            await learn(app, talk(0, 40, "word " * 1_000))
            await settle(app)
            (record,) = await chain(app)
            count = app.pipeline.compactor.tokens.count
    parts = records_of(model)
    assert record.body.summary.startswith(f"One account of {len(parts)} sections.")
    assert len(record.body.summary) <= 600
    assert all(count(asked.material) <= compact.PART_TOKENS * 1.1 for asked in parts)


@pytest.mark.parametrize(
    "answer", [Http(401), Http(403), Http(500), Said("no")], ids=["key", "model", "server", "nonsense"]
)
async def test_a_model_that_fails_leaves_the_extractive_record(answer: object, tmp_path: Path) -> None:
    clock = StoppedClock(DURING)
    with scripted(lambda asked: answer) as model:
        async with opened(tmp_path, model, clock) as app:
            await learn(app, talk(0, 30))  # far beyond the window
            await settle(app)
            (record,) = await chain(app)
            assert (record.written_by, record.reason) == ("extractive", "emergency")
            asked = len(records_of(model))
            assert asked == (2 if isinstance(answer, Said) else 1)
            await settle(app)
            assert len(records_of(model)) <= asked + 1  # not again and again
            await learn(app, talk(30, 8, session="s2"))
            forced = await app.pipeline.compactor.compact("s2", force=True)  # the user is not left without one either
            assert forced.record
            assert forced.record.written_by == "extractive"
            model.respond = honest
            clock.move(hours=2)
            await settle(app)
            recovered = {record.written_by for session in ("s1", "s2") for record in await chain(app, session)}
    assert recovered == ({SIGNED} if isinstance(answer, Said) or answer == Http(500) else {"extractive"})


async def test_the_cap_leaves_the_extractive_record_until_tomorrow(tmp_path: Path) -> None:
    clock = StoppedClock(DURING)
    with scripted(honest) as model:
        async with opened(tmp_path, model, clock, daily_token_cap=1_500) as app:
            await learn(app, talk(0, 16))
            await settle(app)
            assert [record.written_by for record in await chain(app)] == ["extractive"]
            assert "tokens a day" in upgrades(app).reason
            assert model.asked == []
        async with opened(tmp_path, model, clock) as app:
            await settle(app)
            assert [record.written_by for record in await chain(app)] == [SIGNED]


async def test_a_session_that_is_long_over_is_not_worth_a_models_price(tmp_path: Path) -> None:
    clock = StoppedClock("2026-03-10T10:00:00Z")
    with scripted(honest) as model:
        async with opened(tmp_path, model, clock) as app:
            await learn(app, talk(0, 16))
            await settle(app)
            assert records_of(model) == []
            assert [record.written_by for record in await chain(app)] == ["extractive"]
    assert upgrade.FRESH_MS < 8 * 86_400_000


async def test_records_of_a_chain_are_rewritten_one_by_one_and_at_the_depth_limit_nothing_drifts(
    tmp_path: Path,
) -> None:
    with scripted(honest) as model:
        async with opened(tmp_path, model, max_depth=2) as app:
            lines = talk(0, 60)
            lines[1]["text"] = "We decided to call the gateway Zorvan-7 instead of Hub."
            for start in range(0, 60, 4):
                await learn(app, lines[start : start + 4])
                await settle(app)
            records = await chain(app)
            covered = [event for record in records for event in record.event_ids]
            forgotten = await database_of(app).value("SELECT min(event) FROM compaction_source")
            made = await all_records(app)
            assert await database_of(app).write(forget_records, [forgotten]) == len(made)
            assert await chain(app) == []
    assert [record.depth for record in records] == [0, 1]
    assert {record.written_by for record in records} == {SIGNED}
    assert "Zorvan-7" in body_text(records[-1].body)
    assert len(covered) == len(set(covered)) >= 40
    assert all(record.tokens <= record.window // 4 for record in records)
    assert len(made) > 4


async def test_nothing_waits_while_the_model_writes_a_record(tmp_path: Path) -> None:
    """With a model that has yet to answer, what comes in is taken in, and a second server asks for nothing."""

    asked_for = threading.Event()

    def slow(asked: Asked) -> object:
        if asked.form == "record":
            asked_for.set()
            model.release.wait(30)
        return honest(asked)

    with scripted(slow) as model:
        async with opened(tmp_path, model) as app, opened(tmp_path, model) as other:
            await learn(app, talk(0, 16))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(upgrades(app).until_idle)
                assert await to_thread.run_sync(asked_for.wait, 20)
                assert await upgrades(other).until_idle() == 0
                assert upgrades(other).reason == "Another process asks the model."
                await learn(other, [said("What came in meanwhile.", "2026-03-02T09:30:00Z", session="s9")])
                assert await database_of(app).value("SELECT count(*) FROM event") == 17
                model.release.set()
            records: list[Record] = await chain(app)
    assert len(records_of(model)) == 1
    assert [record.written_by for record in records] == [SIGNED]


@pytest.mark.usefixtures("engine")
async def test_a_record_that_was_followed_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    with scripted(honest) as model:
        async with opened(tmp_path, model) as app:
            await learn(app, talk(0, 16))
            rewrites = upgrades(app)
            (waiting,) = await rewrites.records(9)
            await learn(app, talk(16, 12))
            before = await chain(app)
            assert len(before) == 2
            assert not await rewrites.rewrite(waiting)
            assert await chain(app) == before
            assert [one.record.id for one in await rewrites.records(9)] == [before[-1].id]


async def test_a_part_that_is_too_long_for_the_model_is_told_in_halves(tmp_path: Path) -> None:
    def small(asked: Asked) -> object:
        long = asked.material.count("] user:") + asked.material.count("] assistant:") > 3
        return Http(400, "prompt is too long") if asked.form == "record" and long else honest(asked)

    with scripted(small) as model:
        async with opened(tmp_path, model) as app:
            lines = talk(0, 16)
            lines[9]["text"] = "The importer of the old calendar drops every second week in spring."
            await learn(app, lines)
            await settle(app)
            (record,) = await chain(app)
    assert record.written_by == SIGNED
    told = " ".join(record.body.key_points)
    assert "Message 0." in told
    assert "old calendar" in told
