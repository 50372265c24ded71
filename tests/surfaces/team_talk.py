"""What three people of a team said in one repository, and a fourth one's laptop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from mcp_memory.app import App, open_app
from mcp_memory.clients.jsonl import event_of_line
from mcp_memory.config import Calendar, Settings, Team
from mcp_memory.domain.events import TEAM, Intake
from mcp_memory.team.account import TeamAccount
from tests.surfaces.team_server import NOW

REMOTE = "git.example.org/team/shop"
#: A day in the middle of the month before, and two days before the time of the server.
THEN = (NOW.replace(day=1) - timedelta(days=12)).date()
LATELY = (NOW - timedelta(days=2)).date()


def line(at: str, role: str, text: str, session: str, day: object = THEN) -> dict[str, Any]:
    told = {"session_id": session, "timestamp": f"{day}T{at}Z", "role": role, "text": text, "project": "shop"}
    return told | {"source_id": f"{session}/{at}/{role}"}


ADA = [
    line("09:00:00", "user", "How should the checkout retry a payment that timed out?", "ada-1"),
    line(
        "09:01:00",
        "assistant",
        "Either retry with an idempotency key, or leave it to a queue of failed payments.",
        "ada-1",
    ),
    line("09:02:00", "user", "Let's go with the idempotency key, the queue is too much to operate.", "ada-1"),
    line(
        "09:03:00",
        "assistant",
        "Decision: payments are retried with an idempotency key, because a queue is too much to operate.",
        "ada-1",
    ),
    line(
        "09:05:00",
        "assistant",
        "Done: checkout/retry.py now sends Idempotency-Key with each payment; all 14 tests pass.",
        "ada-1",
    ),
]
BOB = [
    line("11:00:00", "user", "The invoice PDF shows the wrong VAT for Austria, please fix that.", "bob-1"),
    line("11:02:00", "assistant", "The cause is that vat_rate() rounds before it multiplies.", "bob-1"),
    line(
        "11:04:00",
        "assistant",
        "Fixed: vat_rate() keeps four digits, and the Austrian invoice shows 20 % again.",
        "bob-1",
    ),
]
CAROL = [
    line(
        "10:00:00",
        "user",
        "We must never log card numbers: remember this as a rule for the payment service.",
        "carol-1",
        LATELY,
    ),
    line(
        "10:01:00",
        "assistant",
        "Understood: card numbers are never logged; I added a filter to payment/logging.py.",
        "carol-1",
        LATELY,
    ),
    line(
        "10:05:00",
        "user",
        "Use structlog for the payment service instead of the standard logging module.",
        "carol-1",
        LATELY,
    ),
    line(
        "10:06:00",
        "assistant",
        "Decided: the payment service logs with structlog. The change is committed and deployed.",
        "carol-1",
        LATELY,
    ),
]
OWN = [
    line("08:00:00", "user", "Set up the repository of the shop on this laptop and run the payment tests.", "dan-1"),
    line("08:03:00", "assistant", "The repository is set up and all payment tests pass.", "dan-1"),
]


async def tell(
    app: App,
    author: str,
    lines: Iterable[dict[str, Any]],
    remote: str = REMOTE,
    name: str = "shop",
    visibility: str = TEAM,
) -> None:
    """Let someone have said this, and share it."""
    captured = [event_of_line(one) for one in lines]
    events = [replace(event, visibility=visibility) for event in app.intaker.prepare(captured)]
    await app.store.add([Intake(tuple(events), "", name, remote, author)])


async def three_people(app: App) -> None:
    for author, lines in (("ada", ADA), ("bob", BOB), ("carol", CAROL)):
        await tell(app, author, lines)
    await app.pipeline.until_idle()
    await app.pipeline.lease.release()


def repository(place: Path, remote: str = f"https://{REMOTE}.git") -> Path:
    """A clone."""
    (place / ".git").mkdir(parents=True)
    (place / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (place / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
    return place


async def joined(home: Path, url: str, token: str = "mcpm_0123456789abcdef", lines: Any = OWN) -> Settings:
    """A laptop that has joined the team as dan, with a memory of its own."""
    now_ms = round(NOW.timestamp() * 1000)
    settings = Settings(home=home, calendar=Calendar("UTC"), team=Team(timeout_ms=10_000), now_ms=now_ms)
    async with open_app(settings, cwd=home) as app:
        await tell(app, "", lines)
        await app.pipeline.until_idle()
        await app.pipeline.lease.release()
    TeamAccount(url, "dan", token).save(settings)
    return settings
