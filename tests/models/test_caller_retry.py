"""What may pass is tried again, after waits that grow; what keeps failing is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_memory.errors import AuthRefused, RateLimited, TransportFailed
from mcp_memory.models.caller import Breaker, after_failure
from tests.models.asking import asking, question
from tests.models.scripted import Http, honest, in_turn

pytestmark = pytest.mark.anyio


async def test_a_passing_failure_is_tried_again_after_growing_waits_and_not_for_ever(tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", in_turn(*[Http(503)] * 3)) as at:
        await at.caller.ask(question())
        assert at.waits == [0.75, 1.5, 3.0]
        at.waits.clear()
        at.model.respond = lambda asked: Http(503)
        with pytest.raises(TransportFailed):
            await at.caller.ask(question("[1] user: something else that is long enough"))
        assert at.waits == [0.75, 1.5, 3.0]
        at.waits.clear()
        at.caller.tries = 9
        with pytest.raises(TransportFailed):
            await at.caller.ask(question("[1] user: a third thing that is long enough"))
        assert at.waits[4:] == [12.0, 15.0, 15.0, 15.0]


async def test_a_wait_that_is_too_long_is_not_waited_for(tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", lambda asked: Http(429, headers={"retry-after": "3600"})) as at:
        with pytest.raises(RateLimited):
            await at.caller.ask(question())
        assert (len(at.model.asked), at.waits) == (1, [])


async def test_it_ends_at_once_if_nothing_can_pass(tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", in_turn(Http(401), honest)) as at:
        with pytest.raises(AuthRefused):
            await at.caller.ask(question())
        assert (len(at.model.asked), at.waits) == (1, [])


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
