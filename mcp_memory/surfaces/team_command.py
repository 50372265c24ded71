"""The `team` command: joining a team's memory from a laptop; people, projects and the audit on its server.

Which action takes which words and options stands in one table. What it does is in two modules: one for laptops, which
ask the server over the network, and one for the server, which works on its database.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import anyio

from mcp_memory.config import Settings
from mcp_memory.errors import UsageError, alone, did_you_mean
from mcp_memory.surfaces.output import Answer


class ActionForm(NamedTuple):
    """What follows an action: so many words, and these options; and the function that is given both."""

    words: str
    options: Sequence[str]
    run: str

    def usage(self, action: str) -> str:
        told = f"mcp-memory team {action} {self.words}".strip()
        return told + "".join(f" [{_FLAGS[option]}]" for option in self.options)


_LAPTOP, _PEOPLE = (f"mcp_memory.surfaces.team.{side}_command" for side in ("laptop", "people"))
#: Every action, of one word or two.
ACTIONS = {
    "join": ActionForm("URL", ("token_file",), f"{_LAPTOP}.join"),
    "leave": ActionForm("", (), f"{_LAPTOP}.leave"),
    "status": ActionForm("", (), f"{_LAPTOP}.status"),
    "push": ActionForm("", ("again",), f"{_LAPTOP}.push"),
    "user list": ActionForm("", (), f"{_PEOPLE}.list_users"),
    "user add": ActionForm("NAME", ("role", "expires"), f"{_PEOPLE}.add_user"),
    "user token": ActionForm("NAME", ("expires",), f"{_PEOPLE}.add_token"),
    "user role": ActionForm("NAME ROLE", (), f"{_PEOPLE}.set_role"),
    "user revoke": ActionForm("NAME", (), f"{_PEOPLE}.revoke_user"),
    "project list": ActionForm("", (), f"{_PEOPLE}.list_projects"),
    "project add": ActionForm("PROJECT NAME", (), f"{_PEOPLE}.add_member"),
    "project remove": ActionForm("PROJECT NAME", ("open",), f"{_PEOPLE}.remove_member"),
    "audit": ActionForm("", ("user", "limit"), f"{_PEOPLE}.show_audit"),
}
_FLAGS = {
    "token_file": "--token-file FILE",
    "role": "--role ROLE",
    "expires": "--expires DAYS",
    "open": "--open",
    "again": "--again",
    "user": "--user NAME",
    "limit": "--limit N",
}


def team(settings: Settings, options: argparse.Namespace) -> Answer:
    """Do what the words ask for. Each function is given the settings and the options, `words` being what follows."""
    action, form = _form_of(options.action, options.words)
    options.words = options.words[action.count(" ") :]
    given = [name for name in _FLAGS if getattr(options, name) not in (None, False)]
    if len(options.words) != len(form.words.split()) or not set(given) <= set(form.options):
        raise UsageError(f"It is `{form.usage(action)}`.")
    from mcp_memory.surfaces.cli import load

    async def run() -> Answer:
        with alone():
            answer: Answer = await load(form.run)(settings, options)
            return answer

    return anyio.run(run)


def _form_of(first: str, words: Sequence[str]) -> tuple[str, ActionForm]:
    """The action of these words, and its form."""
    if first in ACTIONS:
        return first, ACTIONS[first]
    second = words[0] if words else "list"
    if f"{first} {second}" in ACTIONS:
        return f"{first} {second}", ACTIONS[f"{first} {second}"]
    known = [action.partition(" ")[2] for action in ACTIONS if action.startswith(f"{first} ")]
    meant = did_you_mean(second, known)
    raise UsageError(f"`team {first}` knows {', '.join(known)}, not {second[:40]!r}.{meant}")
