"""What stands beside a hit: the reply to a question, and what was later said otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_memory.domain.nodes import short_grip_id
from mcp_memory.search.hits import Found, Search
from tests.support import learn, memory, said

pytestmark = pytest.mark.anyio

OLD = "We decided that the rate limit is a fixed window of 60 requests per minute and key."
NEW = "The rate limit per key is a token bucket now, instead of the fixed window of 60 requests per minute."


async def asked(app_home: Path, lines: list[dict[str, object]], query: str) -> tuple[Found, str]:
    async with memory(app_home) as app:
        await learn(app, lines)
        found, page = await app.answers.teleport(Search(query, "*", limit=5), 600)
        return found, page.text


async def test_a_question_is_shown_with_its_reply(tmp_path: Path) -> None:
    lines = [
        said("How long should a refresh token live?", "2026-03-02T09:00:00Z"),
        said("Fourteen days, sliding with every use.", "2026-03-02T09:00:30Z", role="assistant"),
        said("Good. Now the docs.", "2026-03-02T09:02:00Z"),
        said("The docs are done.", "2026-03-02T09:03:00Z", role="assistant"),
    ]
    found, text = await asked(tmp_path, lines, "how long does a refresh token live")
    reply = found.hits[0].reply
    assert reply is not None
    assert reply.event.text == "Fourteen days, sliding with every use."
    assert "→ " in text
    assert "Fourteen days, sliding" in text
    assert text.count("Fourteen days, sliding") == 1


async def test_a_reply_of_the_next_turn_is_not_taken_for_the_answer(tmp_path: Path) -> None:
    lines = [
        said("Why does the refresh token expire so early?", "2026-03-02T09:00:00Z"),
        said("Never mind, it was my clock.", "2026-03-02T09:01:00Z"),
        said("The token lives for an hour.", "2026-03-02T09:02:00Z", role="assistant"),
    ]
    found, _ = await asked(tmp_path, lines, "why does the refresh token expire early")
    assert found.hits[0].passage.text.startswith("Why does")
    assert found.hits[0].reply is None


async def test_a_later_decision_that_is_told_in_two_clauses_is_shown_beside_the_older_one(tmp_path: Path) -> None:
    change = "We no longer use a fixed window for the rate limit of requests per key; switched to a token bucket."
    lines = [said(OLD, "2026-03-02T09:00:00Z"), said(change, "2026-03-16T09:00:00Z")]
    found, _ = await asked(tmp_path, lines, "rate limit fixed window per key")
    assert next(hit for hit in found.hits if hit.passage.text == OLD).later is not None


async def test_a_later_decision_is_shown_beside_the_older_one(tmp_path: Path) -> None:
    lines = [
        said(OLD, "2026-03-02T09:00:00Z", role="assistant"),
        said(NEW, "2026-03-16T09:00:00Z", role="assistant", session="s2"),
    ]
    found, text = await asked(tmp_path, lines, "rate limit window per key")
    older = next(hit for hit in found.hits if hit.passage.text == OLD)
    newer = next(hit for hit in found.hits if hit.passage.text == NEW)
    assert older.later is not None
    assert older.later.event.text == NEW
    assert newer.later is None
    line = next(line for line in text.splitlines() if line.strip().startswith("later (2026-03-16):"))
    assert line.endswith(f"[{short_grip_id(older.later.event.key)}]")


async def test_the_user_takes_back_what_was_said_a_minute_ago(tmp_path: Path) -> None:
    change = "Actually, make the fixed window 120 requests per minute and key."
    lines = [
        said(OLD, "2026-03-02T09:00:00Z", role="assistant"),
        said(change, "2026-03-02T09:01:00Z"),
    ]
    found, _ = await asked(tmp_path, lines, "fixed window requests per minute")
    older = next(hit for hit in found.hits if hit.passage.text == OLD)
    assert older.later is not None
    assert older.later.event.text == change


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("The login page shows a spinner instead of the old banner.", {}),
        ("The rate limit is documented: a fixed window of 60 requests per minute and key.", {}),
        ("Should the rate limit be a token bucket instead of the fixed window of 60 requests per minute?", {}),
        (NEW, {"project": "beta"}),
        (OLD, {}),
        ("Instead of guessing I read how the rate limit counts requests per minute and key in its window.", {}),
        ("The rate limit no longer fails for the fixed window of 60 requests per minute and key.", {}),
        ("Actually the rate limit counts requests per minute and key in one fixed window for all.", {}),
    ],
    ids=[
        *("another matter", "no change", "a question", "another project", "the same again", "a manner of working"),
        *("a fault that is gone", "an explanation"),
    ],
)
async def test_nothing_is_called_later_that_is_not_plainly_so(tmp_path: Path, text: str, more: dict[str, str]) -> None:
    lines = [
        said(OLD, "2026-03-02T09:00:00Z", role="assistant"),
        said(text, "2026-03-16T09:00:00Z", role="assistant", session="s2", **more),
    ]
    found, page = await asked(tmp_path, lines, "rate limit window per key")
    assert all(hit.later is None for hit in found.hits)
    assert "later (" not in page


async def test_an_agent_that_edits_does_not_correct_itself_with_every_line(tmp_path: Path) -> None:
    lines = [
        said(OLD, "2026-03-02T09:00:00Z", role="assistant"),
        said(NEW, "2026-03-02T09:05:00Z", role="assistant"),
    ]
    found, _ = await asked(tmp_path, lines, "rate limit window per key")
    assert all(hit.later is None for hit in found.hits)


@pytest.mark.parametrize(
    ("older", "newer", "query"),
    [
        ("We use Postgres for the ledger database.", "Let's move the ledger database to Cockroach.", "ledger database"),
        ("Use Redux for the cart state.", "Forget Redux for the cart state, use Zustand.", "cart state"),
        (
            "The site is deployed on Fridays.",
            "From now on the site is deployed on Tuesdays.",
            "when is the site deployed",
        ),
        ("Backups of staging run nightly.", "Correction: backups of staging run weekly.", "staging backups"),
        ("Flags of features come from Darkly.", "We dropped Darkly for flags of features.", "flags of features"),
        (
            "Log retention of the gateway is 30 days.",
            "Make log retention of the gateway 90 days.",
            "gateway log retention",
        ),
        ("Uploads have a retry limit of 5.", "Uploads have a retry limit of 8.", "retry limit of uploads"),
    ],
)
async def test_a_later_word_on_the_same_matter_is_shown_however_it_is_put(
    tmp_path: Path, older: str, newer: str, query: str
) -> None:
    lines = [said(older, "2026-03-02T09:00:00Z"), said(newer, "2026-03-16T09:00:00Z", session="s2")]
    found, _ = await asked(tmp_path, lines, query)
    beside = next(hit for hit in found.hits if hit.passage.text == older).later
    assert beside is not None
    assert beside.event.text == newer


async def test_another_figure_of_another_matter_is_not_shown_as_later(tmp_path: Path) -> None:
    lines = [
        said("Uploads have a retry limit of 5.", "2026-03-02T09:00:00Z"),
        said(
            "The retry of uploads failed 8 times at night, so I looked for the cause.",
            "2026-03-16T09:00:00Z",
            session="s2",
        ),
    ]
    found, _ = await asked(tmp_path, lines, "retry limit of uploads")
    assert all(hit.later is None for hit in found.hits)
