"""What may pass is tried again, after waits that grow; what keeps failing is left alone."""

from __future__ import annotations

import pytest

from mcp_memory.errors import AuthRefused, RateLimited, SummarizerError, TransportFailed
from mcp_memory.models.caller import Backoff, Breaker, after_failure, retrying

pytestmark = pytest.mark.anyio


class Failing:
    """Fails with each of these errors in turn, then works."""

    def __init__(self, *errors: SummarizerError) -> None:
        self.errors = list(errors)
        self.calls = 0
        self.waits: list[float] = []

    async def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


async def test_a_passing_failure_is_tried_again_after_growing_waits() -> None:
    call = Failing(*[TransportFailed("x")] * 3)
    assert await retrying(call, Backoff(), call.sleep, lambda: 1.0) == "done"
    assert call.waits == [1.0, 2.0, 4.0]


async def test_waits_are_shortened_by_chance_and_bounded() -> None:
    backoff = Backoff(first=1.0, longest=8.0)
    assert [backoff.wait(failures, 0.0) for failures in (1, 2, 3, 4, 9)] == [0.5, 1.0, 2.0, 4.0, 4.0]


async def test_the_wait_a_provider_names_is_obeyed() -> None:
    call = Failing(RateLimited("x", 7.5))
    await retrying(call, Backoff(), call.sleep, lambda: 0.5)
    assert call.waits == [7.5]


async def test_a_wait_that_is_too_long_is_not_waited_for() -> None:
    call = Failing(RateLimited("x", 3_600))
    with pytest.raises(RateLimited):
        await retrying(call, Backoff(), call.sleep, lambda: 0.5)
    assert (call.calls, call.waits) == (1, [])


async def test_it_ends_after_so_many_tries_and_at_once_if_nothing_can_pass() -> None:
    call = Failing(*[TransportFailed("x")] * 9)
    with pytest.raises(TransportFailed):
        await retrying(call, Backoff(tries=4), call.sleep, lambda: 0.5)
    assert call.calls == 4
    refused = Failing(AuthRefused("x"))
    with pytest.raises(AuthRefused):
        await retrying(refused, Backoff(), refused.sleep, lambda: 0.5)
    assert refused.calls == 1


def test_the_breaker_opens_at_the_third_failure_and_stays_open_longer_each_time() -> None:
    breaker = Breaker()
    pauses = []
    for _ in range(12):
        breaker = after_failure(breaker, "why", 1_000)
        pauses.append(max(breaker.open_until_ms - 1_000, 0))
    assert pauses[:2] == [0, 0]
    assert pauses[2:6] == [60_000, 120_000, 240_000, 480_000]
    assert max(pauses) == 3_600_000
    assert breaker.is_open(1_000 + 3_599_999)
    assert not breaker.is_open(1_000 + 3_600_000)


def test_the_breaker_honours_the_wait_that_a_provider_names() -> None:
    breaker = after_failure(Breaker(), "limit", 0, asked_seconds=300)
    assert breaker.open_until_ms == 300_000
