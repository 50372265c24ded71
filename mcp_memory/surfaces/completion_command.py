"""`completion`: scripts by which bash, zsh and fish complete this program's commands, options and values.

A script holds the commands and options as they are in the table of commands. For a value it calls the program back, as
`mcp-memory __complete WORD…`, the last word being the one that is typed. What that prints may go on there, a line each;
it ends with 1 where the shell should offer files.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from mcp_memory import lexicon
from mcp_memory.surfaces import cli, output
from mcp_memory.surfaces.output import Answer

if TYPE_CHECKING:
    from mcp_memory.navigate.answers import Answers

SHELLS = ("bash", "zsh", "fish")
#: The file that a shell reads the script from, for those who ask for --json.
_FILES = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/config.fish"}
#: The first word of a call back. It is no command: help does not list it.
CALL_BACK = "__complete"
FILES_WANTED = 1
#: What an argument takes, by what help calls it.
_BY_METAVAR = {"SLUG": "project", "PROJECT": "project", "T": "topic", "PHRASE": "when", "WHEN": "when", "DATE": "when"}
_BY_METAVAR |= {"PATH": "files", "FILE": "files"}
#: Of which kind an id is, by command and argument, or by the option.
_IDS = {"node id": "node_id", "grip id": "grip_id", "session id": "session_id", "compact id": "session_id"}
_IDS |= {"--session": "session_id", "--event": "grip_id", "--focus": "node_id"}
#: Where no project is meant, so many are looked through, and so many values are offered.
_PROJECTS, _MOST = 8, 100
#: How lists begin the id of a session.
_SESSION = "s:"


def completion(options: argparse.Namespace) -> Answer:
    """The script for a shell."""
    script = script_for(options.shell)
    return {"shell": options.shell, "file": _FILES[options.shell], "script": script} if options.json else script


def script_for(shell: str) -> str:
    """The shell's own part, with the commands and options put in."""
    lines = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()
    # By its first line zsh knows what a file in one of its directories of functions completes.
    head = "#compdef mcp-memory mcp-memory-toc" if shell == "zsh" else f"# Completes mcp-memory in {shell}."
    return f"{head}\n{lexicon.text(f'completion_{shell}').replace('@COMMANDS@', chr(10).join(lines))}"


def _parsers() -> Mapping[str, argparse.ArgumentParser]:
    """The parser of each command."""
    for action in cli.parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.option_strings and action.help is not argparse.SUPPRESS]


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return parser._get_formatter()._expand_help(action) if action.help else ""


def _bash() -> Iterator[str]:
    parsers = _parsers()
    yield f"    local commands={shlex.quote(' '.join(parsers))} options="
    yield '    case "${words[0]}" in'
    for name, parser in parsers.items():
        flags = " ".join(flag for action in _options(parser) for flag in action.option_strings)
        yield f"        {name}) options={shlex.quote(flags)} ;;"
    yield "    esac"


def _zsh() -> Iterator[str]:
    parsers = _parsers()
    yield "    commands=("
    for name, parser in parsers.items():
        yield f"        {shlex.quote(f'{name}:{parser.description}')}"
    yield "    )"
    yield '    case "$words[2]" in'
    for name, parser in parsers.items():
        told = ((flag, _help(parser, action)) for action in _options(parser) for flag in action.option_strings)
        yield f"        {name}) options=({' '.join(shlex.quote(f'{flag}:{text}') for flag, text in told)}) ;;"
    yield "    esac"


def _fish() -> Iterator[str]:
    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"

    for name, parser in _parsers().items():
        start = "complete -c $program"
        yield f"    {start} -n __mcp_memory_is_first -a {name} -d {quoted(parser.description or '')}"
        for action in _options(parser):
            flags = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in action.option_strings]
            value = " -x -a '(__mcp_memory_values)'" if action.nargs != 0 else ""
            told = quoted(_help(parser, action))
            yield f"    {start} -n '__mcp_memory_is {name}' {' '.join(flags)}{value} -d {told}"


class ValueAsked(NamedTuple):
    """What stands at the end of a command line: what the value is, and the project that the line names, if any."""

    choices: Sequence[str]
    kind: str
    project: str | None


def asked(words: Sequence[str]) -> ValueAsked:
    """What the last of these words is a value of; the first is the command."""
    name, *given, _ = words
    parser = _parsers().get(name)
    if parser is None:
        return ValueAsked((), "", None)
    flags = {flag: action for action in _options(parser) for flag in action.option_strings}
    places = [action for action in parser._actions if not action.option_strings]
    project, option = None, None
    at = 0
    for word in given:
        if option:
            project = word if option.dest == "project" else project
            option = None
        elif word in flags:
            option = flags[word] if flags[word].nargs != 0 else None
        elif not word.startswith("-") and at < len(places):
            # The last one may take all the words that follow.
            at += places[at].nargs not in ("*", "+")
    action = option or (places[at] if at < len(places) else None)
    if action is None:
        return ValueAsked((), "", project)
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    of_ids = _IDS.get(action.option_strings[-1] if action.option_strings else f"{name} {action.dest}")
    kind = of_ids or _BY_METAVAR.get(metavar, "")
    return ValueAsked([str(choice) for choice in action.choices or ()], kind, project)


def complete(words: Sequence[str]) -> int:
    """Print what the last word may go on with. Whatever goes wrong, no one is told of it in the middle of a line."""
    import logging

    logging.disable(logging.CRITICAL)
    try:
        wanted = asked(words)
        if wanted.kind == "files":
            return FILES_WANTED
        found = [choice for choice in wanted.choices if choice.startswith(words[-1])]
        for value in found or _remembered(wanted, words[-1]):
            output.write(f"{value}\n")
    except Exception:
        return 0
    return 0


def _remembered(wanted: ValueAsked, typed: str) -> list[str]:
    """Values that memory knows. A memory that does not exist is not made, and nothing that a shell might trip over is
    told: names come from whoever wrote a transcript."""
    from mcp_memory import config
    from mcp_memory.domain.text import safe

    settings = config.load()
    if not wanted.kind or not settings.database.exists():
        return []
    import anyio

    from mcp_memory.app import open_app

    async def look() -> list[str]:
        async with open_app(settings, typed=True) as app:
            return await app.answers.at_once(lambda here: candidates(here, wanted.kind, typed, wanted.project))

    return [value for value in anyio.run(look) if value and value == safe(value)][:_MOST]


async def candidates(answers: Answers, kind: str, typed: str, project: str | None) -> list[str]:
    """What may go on as typed: in the project that is named or that of this directory, or else in any."""
    if kind == "session_id" and typed.startswith(_SESSION):
        # As lists print it.
        return [_SESSION + name for name in await candidates(answers, kind, typed.removeprefix(_SESSION), project)]
    from mcp_memory.navigate.completions import complete as completed

    store = answers.reader
    slugs = await store.slugs()
    if kind == "project":
        return [slug for slug in slugs if slug.startswith(typed)]
    named = project if project in slugs else None
    home = None if project == "*" else named or (await answers.view()).home
    if home is None and kind == "session_id":
        return await store.sessions(typed, _MOST)
    found: list[str] = []
    for slug in [home] if home else slugs[:_PROJECTS]:
        here = replace(answers, root=await store.root_of(slug) or "", label="", remote="")
        values = await completed(here, kind, typed)
        foreign = kind == "node_id" and not home and "@" not in typed
        found += [f"{value}@{slug}" for value in values] if foreign else values
    return list(dict.fromkeys(found))
