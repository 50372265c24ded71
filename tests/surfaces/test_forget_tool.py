"""`forget` over MCP: the user is asked through the client, in either protocol era; unasked, one event goes at most."""

from __future__ import annotations

from typing import Literal

import pytest
from mcp.client.session import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from mcp_memory.app import open_app
from mcp_memory.config import Settings
from tests.support import said, tell
from tests.surfaces.client import GRIP, Era, ask, connected, refused

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ["auto", "legacy"])]


class User:
    """Answers every question in the same way, and keeps what was asked."""

    def __init__(self, action: Literal["accept", "decline", "cancel"]) -> None:
        self.action, self.asked = action, list[str]()

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        return ElicitResult(action=self.action, content={} if self.action == "accept" else None)


async def count(settings: Settings) -> int:
    async with open_app(settings) as app:
        return (await app.store.counts()).events


async def test_what_the_user_agrees_to_is_erased(settings: Settings, era: Era) -> None:
    user = User("accept")
    before = await count(settings)
    async with connected(settings, era, asks=user) as client:
        would = await ask(client, "forget", session_id="tidepool-api-07")
        assert would.startswith("Would forget ")
        assert user.asked == []
        told = await ask(client, "forget", session_id="tidepool-api-07", confirm=True)
        size = would.removeprefix("Would forget ").partition(".")[0]
        assert told == f"Forgot {size}."
        assert user.asked == [f"Erase {size} from memory for good: the session tidepool-api-07?"]
        assert "no session" in await refused(client, "session_context", session_id="tidepool-api-07")
    assert await count(settings) == before - int(size.split()[0])


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_without_the_user_s_consent_nothing_is_erased(
    settings: Settings, era: Era, action: Literal["decline", "cancel"]
) -> None:
    user, before = User(action), await count(settings)
    async with connected(settings, era, asks=user) as client:
        found = GRIP.search(await ask(client, "teleport", query="refresh tokens"))
        assert found
        for wish in ({"match": "token"}, {"session_id": "tidepool-api-07"}, {"grip_id": found[0]}):
            told = await ask(client, "forget", **wish, confirm=True)
            assert told == "The user did not agree, so nothing was erased. Do not ask again unless the user does."
        assert len(user.asked) == 3
        assert "all that holds 'token'" in user.asked[0]
        assert "Erase 1 events of 1 sessions" in user.asked[2]
        assert "“" in user.asked[2]
    assert await count(settings) == before


async def test_a_client_that_cannot_ask_erases_one_event_at_most(settings: Settings, era: Era) -> None:
    before = await count(settings)
    async with connected(settings, era) as client:
        for wish in ({"match": "token"}, {"session_id": "tidepool-api-07"}):
            message = await refused(client, "forget", **wish, confirm=True)
            assert "cannot ask the user" in message
            assert "grip_id" in message
            assert "`mcp-memory forget`" in message
        found = GRIP.search(await ask(client, "teleport", query="refresh tokens"))
        assert found
        assert await ask(client, "forget", grip_id=found[0], confirm=True) == "Forgot 1 events of 1 sessions."
    assert await count(settings) == before - 1


async def test_agreement_counts_for_the_question_that_was_asked(settings: Settings, era: Era) -> None:
    """More may have been said meanwhile."""

    class Late(User):
        async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            if not self.asked:
                async with open_app(settings) as app:
                    await tell(app, [said("One more quaggaword.", "2026-10-30T09:00:00Z", project="tidepool-api")])
            return await super().__call__(context, params)

    async with open_app(settings) as app:
        await tell(app, [said("The quaggaword.", "2026-10-30T08:00:00Z", project="tidepool-api")])
    user = Late("accept")
    async with connected(settings, era, asks=user) as client:
        told = await ask(client, "forget", match="quaggaword", confirm=True)
        if era == "legacy":
            assert told == "It would be 2 events of 1 sessions by now, so nothing was erased: call it again."
            told = await ask(client, "forget", match="quaggaword", confirm=True)
        assert told == "Forgot 2 events of 1 sessions."
    assert [question.split()[1] for question in user.asked] == ["1", "2"]


async def test_a_text_is_taken_as_whole_words_and_what_is_near_is_quoted(settings: Settings, era: Era) -> None:
    user = User("accept")
    async with open_app(settings) as app:
        await tell(app, [said("The <system>ospreys</system> nest.", "2026-09-20T09:00:00Z")])
    async with connected(settings, era, asks=user) as client:
        for confirm in (False, True):
            nothing = await ask(client, "forget", match="osprey", confirm=confirm)
            assert nothing.startswith("Nothing was erased.\nNo line holds 'osprey' as a word. 1 line holds it")
            assert nothing.endswith("part=true takes it.")
            assert "<system" not in nothing
        assert user.asked == []
        would = await ask(client, "forget", match="osprey", part=True)
        assert would.startswith("Would forget 1 events of 1 sessions.")
        assert "user in s1: “The ‹system›ospreys‹/system› nest.”" in would
        assert "Forgot 1 events" in await ask(client, "forget", match="osprey", part=True, confirm=True)
        assert "as a word or as a part of one" in user.asked[0]
        assert "match" in await refused(client, "forget", session_id="s1", part=True)
