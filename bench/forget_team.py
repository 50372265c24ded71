"""Forgetting what was shared with a team: the server's tables and files, and what another member's laptop shows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import psycopg

from bench.forget import MARK, WORDS, Check, Setup, places_in, places_of_server, reason_of
from bench.measure import REPO
from mcp_memory.app import App, open_app
from mcp_memory.config import Settings
from mcp_memory.domain.events import EventQuery
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.people import ProjectName
from mcp_memory.store.sharing_port import Chosen
from mcp_memory.surfaces.forget_command import carry_out
from mcp_memory.surfaces.process_command import until_idle
from mcp_memory.team.account import TeamAccount
from tests.surfaces.team_server import TeamDesk, reachable, team_server
from tests.surfaces.team_talk import LATELY, OWN, joined, line, repository, tell

SETUP = Setup("postgres", "team")
_SESSION = "ada-marked-session"
_SHARED = {place: WORDS[place] for place in ("prompt", "answer", "tool result", "summary")}
_LINES = [
    line(
        "10:00:00",
        "user",
        f"We must never print {MARK} {WORDS['prompt']} labels: remember this rule.",
        _SESSION,
        LATELY,
    ),
    line("10:01:00", "assistant", f"Decided: the {MARK} {WORDS['answer']} labels are sewn on.", _SESSION, LATELY),
    line("10:02:00", "tool", f"Bash: cat labels.txt\n{MARK} {WORDS['tool result']}", _SESSION, LATELY),
    line("10:03:00", "assistant", f"Decided: the {MARK} {WORDS['summary']} labels are blue.", _SESSION, LATELY),
]
_STAYS = "marlinspike"
_PLAIN = [
    line("08:00:00", "user", f"We must never sell the {_STAYS} abroad: remember this rule.", "ada-plain", LATELY),
    line("08:01:00", "assistant", f"Decided: the {_STAYS} is sold at home only.", "ada-plain", LATELY),
]
#: How far the clock of the hook is moved on.
_WEEK_NS = 7 * 86_400 * 10**9
_LATER = """
import runpy, sys, time
now = time.time_ns
time.time_ns = lambda: now() + {ns}
time.time = lambda: time.time_ns() / 1e9
sys.argv = [{hook!r}, "--client", "claude-code"]
runpy.run_path({hook!r}, run_name="__main__")
"""


@dataclass
class _Team:
    desk: TeamDesk
    ada: App
    dan: Settings
    clone: Path

    @property
    def url(self) -> str:
        return self.desk.memory.settings.store.url

    async def settle(self) -> None:
        """Let the server work until nothing is left to do."""
        await until_idle(await self.desk.memory.whole())

    async def dan_asks(self) -> None:
        """Dan's laptop speaks to the server, as a running server of his does."""
        async with open_app(self.dan, cwd=self.clone) as app:
            assert app.team
            await app.team.refresh(app.store, app.clock)
            (slug, remote), *_ = (await app.store.remotes()).items()
            await app.team.ask("teleport", {"query": "labels"}, ProjectName(remote, slug))
            await app.pipeline.until_idle()
            await app.pipeline.lease.release()

    def dan_s_hook(self, later_ns: int = 0) -> str:
        """What dan's hook prints at the start of a session."""
        code = _LATER.format(ns=later_ns, hook=str(REPO / "hooks" / "capture.py"))
        payload = {
            "session_id": "dan-9",
            "cwd": str(self.clone),
            "hook_event_name": "SessionStart",
            "source": "startup",
        }
        env = {"PATH": "/usr/bin:/bin", "MCP_MEMORY_HOME": str(self.dan.home), "HOME": str(self.clone)}
        done = subprocess.run(
            [sys.executable, "-c", code], input=json.dumps(payload), env=env, capture_output=True, text=True, check=True
        )
        return done.stdout


@asynccontextmanager
async def _team(root: Path) -> AsyncIterator[_Team]:
    async with team_server(root / "server") as desk, reachable(desk) as url:
        ada = await joined(root / "ada", url, lines=_PLAIN)
        TeamAccount(url, "ada", desk.tokens["ada"]).save(ada)
        dan = await joined(root / "dan", url, await desk.add_user("dan"), OWN)
        async with open_app(ada, cwd=repository(root / "ada-clone")) as app:
            await tell(app, "", _LINES)
            await until_idle(app)
            (slug,) = (await app.store.remotes()).keys()
            await app.store.join_team((await desk.store.identity())[0])
            await app.store.share(Chosen(project=slug), 0, dry_run=False)
            await app.pusher.push()
            team = _Team(desk, app, dan, repository(root / "dan-clone"))
            await team.settle()
            _analyze(team.url)
            await team.dan_asks()
            yield team


def _analyze(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")


async def _key(app: App, word: str) -> bytes:
    found = [event.key for event in await app.store.events(EventQuery(session_id=_SESSION)) if word in event.text]
    return found[0]


async def _request(app: App, way: str) -> ForgetRequest:
    if way == "event":
        return ForgetRequest(event_key=await _key(app, WORDS["prompt"]))
    (slug,) = (await app.store.remotes()).keys()
    chosen = {
        "session": ForgetRequest(session_id=_SESSION),
        "project": ForgetRequest(project=slug),
        "before": ForgetRequest(before_ms=1 << 45),
        "match": ForgetRequest(match=MARK),
    }
    return chosen[way]


WAYS = ("session", "event", "project", "before", "match")
STEPS = (
    "team's server",
    "team's server, pushed again",
    "other member's laptop, online",
    "other member's hook, a week later",
)


async def _checks(root: Path, way: str) -> list[Check]:
    gone = [WORDS["prompt"]] if way == "event" else [*_SHARED.values(), *([MARK] if way == "match" else [])]
    kept = [] if way in ("project", "before") else [_STAYS]
    found = []
    async with _team(root) as team:
        before = {**places_in(team.dan.home, gone), **places_of_server(team.url, gone)}
        if set(before) != set(gone) or MARK not in places_in(team.dan.home, [MARK]):
            raise RuntimeError("The team's server or the other laptop never held it, so nothing would be proved.")
        await carry_out(team.ada, await _request(team.ada, way), dry_run=False)

        def check(step: str, where: dict[str, list[str]], told: str) -> None:
            found.append(Check(SETUP, f"{way}, of a team", step, where, [word for word in kept if word not in told]))

        # Dan's laptop is offline and has not heard of it. A week later it must not tell old news any more.
        printed = team.dan_s_hook(_WEEK_NS)
        check(STEPS[3], {word: ["printed by the hook"] for word in gone if word in printed}, _STAYS)
        await team.settle()
        check(STEPS[0], places_of_server(team.url, gone), _told(team.url))
        await team.ada.store.push_again()
        await team.ada.pusher.push()
        await team.settle()
        check(STEPS[1], places_of_server(team.url, gone), _told(team.url))
        await team.dan_asks()
        printed = team.dan_s_hook()
        where = places_in(team.dan.home, gone)
        where |= {word: ["printed by the hook"] for word in gone if word in printed}
        check(STEPS[2], where, _STAYS)
    return found


def _told(url: str) -> str:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT text FROM mcp_memory.event").fetchall()
    return "\n".join(text for (text,) in rows)


def try_team(root: Path, ways: Sequence[str] = WAYS, say: Callable[[str], None] = lambda line: None) -> list[Check]:
    """Forget in each way on the laptop of one member, and look at the server and at another member's laptop."""
    found = list[Check]()
    for way in ways:
        place = root / way
        place.mkdir(parents=True)
        try:
            checks = anyio.run(partial(_checks, place, way))
        except Exception as error:  # a scenario that fails is a failed check for each of its steps
            why = reason_of(error)
            checks = [Check(SETUP, f"{way}, of a team", step, error=why) for step in STEPS]
        for check in checks:
            say(f"{'pass' if check.passed else 'FAIL'}  {check}")
        found += checks
    return found
