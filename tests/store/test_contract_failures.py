"""What every engine keeps of work that failed, and when it puts it back."""

from __future__ import annotations

import math
from datetime import UTC

import pytest

from mcp_memory.domain.failures import Stage, cut_failure, period_failure, record_failure, segment_failure
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.nodes import Stale
from mcp_memory.domain.segments import Rules
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.pipeline.rollup import rollup
from mcp_memory.pipeline.segment import segment
from mcp_memory.store.port import Share
from mcp_memory.store.sql import failures as stored_failures
from mcp_memory.summaries import ExtractiveSummarizer
from tests.store.engines import LATER, Open, add, build, count_all, said, talk

pytestmark = pytest.mark.anyio


async def test_what_failed_leaves_its_queue_until_its_inputs_change(opened: Open) -> None:
    async with opened() as store:
        lease = store.lease()
        assert await lease.acquire()
        assert lease.token
        await add(store, *talk())
        [account], [cutting] = await store.accounts_due(LATER, 9), await store.dirty(9, 0)
        failures = [record_failure(account, ValueError()), cut_failure(cutting, ValueError())]
        # More came meanwhile: it is tried again.
        await add(store, said("More.", 9))
        await store.set_aside(failures, LATER, lease.token)
        assert await store.failures() == []
        [account], [cutting] = await store.accounts_due(LATER, 9), await store.dirty(9, 0)
        failures = [record_failure(account, ValueError()), cut_failure(cutting, ValueError())]
        await store.set_aside(failures, LATER, lease.token)
        assert (await store.accounts_due(LATER, 9), await store.dirty(9, 0)) == ([], [])
        found = await store.failures()
        assert [(each.stage, each.what, each.project, each.reason) for each in found] == [
            (Stage.RECORD, "session s1", "alpha", "ValueError"),
            (Stage.CUT, "session s1", "alpha", "ValueError"),
        ]
        assert (await store.compactions()).failed == "ValueError"
        assert await store.retry_failures() == 0
        await add(store, said("Still more.", 10))
        [account], [cutting] = await store.accounts_due(LATER, 9), await store.dirty(9, 0)
        await store.settle_accounts([account], lease.token)
        await store.save_cuts([(cutting, [], [])], lease.token)
        assert await store.failures() == []


async def test_what_failed_in_an_earlier_version_is_tried_again_by_a_later_one(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened() as store:
        await add(store, *talk())
        await build(store)
        await add(store, said("More.", 9))
        lease = store.lease()
        assert await lease.acquire()
        assert lease.token
        await segment(store, Rules(), LATER, lease.token)
        [job], [account] = await store.jobs(9, range(0)), await store.accounts_due(LATER, 9)
        await store.set_aside([segment_failure(job, ValueError())], LATER, lease.token)
        await store.set_aside([record_failure(account, ValueError())], LATER, lease.token)
        await store.mark_closed_periods(LATER)
        await rollup(store, ExtractiveSummarizer(), UTC, count_all, LATER, Share(lease, math.inf))
        year = Stale(job.project, "alpha", NodeRef(Level.YEAR, "1999"), (), (), None)
        await store.set_aside([period_failure(year, ValueError())], LATER, lease.token)
        assert (await store.jobs(9, range(0)), await store.accounts_due(LATER, 9)) == ([], [])
        assert await store.stale(Level.YEAR, 9) == []
        assert [each.what for each in await store.failures()] == ["session s1", "toc:year:1999", "session s1"]
        monkeypatch.setattr(stored_failures, "__version__", "999.0.0")
        assert await store.retry_failures() == 3
        assert await store.retry_failures() == 0
        assert [each.segment for each in await store.jobs(9, range(0))] == [job.segment]
        assert [each.session_id for each in await store.accounts_due(LATER, 9)] == ["s1"]
        assert [stale.ref for stale in await store.stale(Level.YEAR, 9)] == [year.ref]
        # A version that is older does not try what a later one could not do.
        monkeypatch.setattr(stored_failures, "__version__", "0.0.1")
        assert await store.retry_failures() == 0
        assert await store.retry_failures(all_versions=True) == 3


async def test_what_failed_is_gone_with_its_session(opened: Open) -> None:
    async with opened() as store:
        lease = store.lease()
        assert await lease.acquire()
        assert lease.token
        await add(store, *talk())
        [account] = await store.accounts_due(LATER, 9)
        await store.set_aside([record_failure(account, ValueError())], LATER, lease.token)
        await store.forget(ForgetRequest(session_id="s1"), dry_run=False)
        assert await store.failures() == []


async def test_a_segment_that_failed_is_gone_with_the_words_it_was_cut_from(opened: Open) -> None:
    async with opened() as store:
        lease = store.lease()
        assert await lease.acquire()
        assert lease.token
        await add(store, *talk())
        await segment(store, Rules(), LATER, lease.token)
        [job] = await store.jobs(9, range(0))
        await store.set_aside([segment_failure(job, ValueError())], LATER, lease.token)
        assert [each.stage for each in await store.failures()] == [Stage.SUMMARY]
        await store.forget(ForgetRequest(match="token cache of app"), dry_run=False)
        assert await store.failures() == []
        assert await store.retry_failures(all_versions=True) == 0
