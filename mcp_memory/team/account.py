"""Who one is on the team's server: `team.json` in the data directory, readable by its user alone.

It holds the token, so nothing prints it. Beside it, `team-state.json` tells how the last push went.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcp_memory.capture.settings import private_dir
from mcp_memory.config import Settings
from mcp_memory.errors import Problem, SettingsError, StoreFull, UsageError

FILE, STATE, KNOWN = "team.json", "team-state.json", "team-known.json"
#: How long it may be in vain to push until it is called a problem.
_OFFLINE_MS = 24 * 3_600_000
#: Refused events that are kept with their reasons.
MAX_SET_ASIDE = 50
_SHORTEST_TOKEN, _LONGEST_TOKEN = 16, 4_096


@dataclass(frozen=True, slots=True)
class TeamAccount:
    """The server, one's name there, and the token that proves it."""

    url: str
    name: str
    token: str = field(repr=False)
    #: Which memory the server has, so that another one behind the same address is told from it.
    server: str = ""

    @classmethod
    def load(cls, settings: Settings) -> TeamAccount | None:
        """The account of this data directory, none if it joined no team."""
        path = settings.home / FILE
        try:
            told = json.loads(path.read_text("utf-8"))
            account = cls(**{row.name: str(told.get(row.name, "")) for row in fields(cls)})
            return cls(checked_url(account.url), account.name, checked_token(account.token), account.server)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, AttributeError, UsageError):
            raise SettingsError(
                f"{path} holds no account. `mcp-memory team join URL` makes it anew, `team leave` removes it."
            ) from None

    def save(self, settings: Settings) -> None:
        write_private(settings.home / FILE, asdict(self))


def forget_account(settings: Settings) -> None:
    """Remove the token, what is known of pushes, and what was fetched from the team."""
    for name in (FILE, STATE, KNOWN):
        (settings.home / name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class PushState:
    """How pushing went: when something was last accepted, and what is in the way since, if anything is."""

    pushed_ms: int = 0
    error: str = ""
    #: The server does not know the token (any more): nothing is tried until one joins again.
    refused: bool = False
    #: Since when something has been in the way.
    failing_ms: int = 0
    #: How many events the server would not take, and why the last of them.
    declined: int = 0
    reason: str = ""
    #: The ids and reasons of the latest of them.
    set_aside: list[list[str]] = field(default_factory=list)

    def with_set_aside(self, refused: Sequence[tuple[str, str]]) -> PushState:
        """The state after the server has refused more events, given by id and reason."""
        kept = [*self.set_aside, *([event_id, reason] for event_id, reason in refused)][-MAX_SET_ASIDE:]
        return replace(self, declined=self.declined + len(refused), reason=refused[-1][1], set_aside=kept)

    @classmethod
    def load(cls, settings: Settings) -> PushState:
        with suppress(OSError, ValueError, TypeError):
            return cls(**json.loads((settings.home / STATE).read_text("utf-8")))
        return cls()

    def save(self, settings: Settings) -> None:
        write_private(settings.home / STATE, asdict(self))


def team_problems(settings: Settings, now_ms: int) -> list[Problem]:
    """What keeps what is shared from the team. To be offline for a while is nothing to mend."""
    if not (settings.home / FILE).exists():
        return []
    try:
        TeamAccount.load(settings)
    except SettingsError as error:
        return [Problem("the account on the team's server cannot be read", str(error), "mcp-memory team join URL")]
    state, problems = PushState.load(settings), []
    if state.refused:
        why = f"{state.error} What is shared waits on this machine until then."
        problems.append(Problem("the team's server does not accept the token", why, "mcp-memory team join URL"))
    elif state.error and state.failing_ms < now_ms - _OFFLINE_MS:
        why = f"{state.error} It waits on this machine and is tried again and again."
        problems.append(Problem("what is shared does not reach the team's server", why, "mcp-memory team push"))
    if state.declined:
        why = f"The last of {state.declined:,}: {state.reason}. The team does not see them; they are kept here."
        fix = "See to that, or keep it back (mcp-memory unshare --session ID); then: mcp-memory team push --again"
        problems.append(Problem("the team's server did not take some of what is shared", why, fix))
    return problems


def write_private(path: Path, shape: Mapping[str, Any]) -> None:
    """Put a file in place as a whole, for its owner alone."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        private_dir(str(path.parent))
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            json.dump(shape, file, indent=1)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreFull(
            f"{path} cannot be written: {error.strerror or error}. Correct the permissions or free some space."
        ) from error


def checked_url(url: str) -> str:
    """The address of a team's server: over TLS, except on this machine."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    good = bool(host) and not (parts.username or parts.password or parts.query or parts.fragment)
    if parts.scheme not in ("http", "https") or not good or port == 0:
        raise UsageError("The address of a team's server is such as https://memory.example.org, without a password.")
    if parts.scheme == "http" and not is_loopback(host):
        raise UsageError(f"http://{host} would send the token and what is shared in the clear. Use https.")
    return url.strip().rstrip("/")


def checked_token(token: str) -> str:
    token = token.strip()
    if not _SHORTEST_TOKEN <= len(token) <= _LONGEST_TOKEN or not token.isascii() or not token.isprintable():
        raise UsageError(
            "This is no token: it is the one line that `mcp-memory team user add` has shown on the server."
        )
    return token


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
