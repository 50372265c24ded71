"""The command line: the table of all commands, the parser made from it, and the way from a command to its function.

A command is one row of COMMANDS. Its function is named there and imported only when the command is used.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from enum import Enum
from importlib import import_module
from typing import Any, NoReturn

from mcp_memory import __version__

_EPILOG = "Exit codes: 0 done, 1 failed, 2 wrong usage. Data lives in MCP_MEMORY_HOME; only a model you set gets any."
#: How many objects a command makes before garbage is looked for.
OBJECTS_MADE = 50_000
#: How much of a file's name a message repeats.
SHOWN_NAME = 200


class Needs(Enum):
    """What a command's function is given before its options. With the settings it works even on a damaged memory."""

    NOTHING, SETTINGS, MEMORY = range(3)


class Argument:
    """One argument of a command, in argparse's terms. Of those marked `one_of`, exactly one must be given."""

    def __init__(self, *flags: str, one_of: bool = False, **options: Any) -> None:
        self.flags, self.one_of, self.options = flags, one_of, options


def flag(name: str, text: str) -> Argument:
    return Argument(name, action="store_true", help=text)


class Command:
    """One command. `run` names its function: the module, among the surfaces or dotted in full, and the function.

    The function answers with a document (a dictionary, for --json), a text, or an exit code if it has printed itself.
    `logged`: what it does is written to the log in the data directory.
    """

    def __init__(
        self, name: str, help: str, run: str, *arguments: Argument, needs: Needs = Needs.MEMORY, logged: bool = False
    ) -> None:
        self.name, self.help, self.run = name, help, run
        self.arguments, self.needs, self.logged = arguments, needs, logged


class Names:
    """The names in another module's table, which is imported when they are asked for."""

    def __init__(self, table: str, *more: str) -> None:
        self._table, self._more = table, more

    def __iter__(self) -> Iterator[str]:
        yield from self._more
        table = load(self._table)
        yield from table() if callable(table) else table


def load(name: str) -> Any:
    """What a dotted name stands for; a module without a package is one of the surfaces."""
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module if "." in module else f"{__package__}.{module}"), attribute)


def port(text: str) -> int:
    # The system would take the number modulo 65,536 and listen somewhere else.
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to 65535, 0 for any that is free")
    return int(text)


_PROJECT = Argument("--project", help="default: the one of this directory; '*' for all", metavar="SLUG")
_BUDGET = Argument("--budget", help="the text is at most so long", type=int, metavar="TOKENS")
_YES = flag("--yes", "do not ask")
_CLIENT = Argument(
    "client",
    help="%(choices)s; default: every one found, after asking",
    nargs="?",
    metavar="CLIENT",
    choices=Names("mcp_memory.clients.installable"),
)
_SESSION = Argument("id", help="the session's id, as search and grip show it", metavar="ID")

#: Every command, in the order in which help lists them.
COMMANDS = [
    Command(
        "import",
        "old history into memory: every place the known clients keep it, or the paths given",
        "import_command.load",
        Argument("paths", help="transcript files or directories; - for standard input", nargs="*", metavar="PATH"),
        Argument(
            "--client",
            help="%(choices)s; default: by content",
            default="auto",
            metavar="CLIENT",
            choices=Names("mcp_memory.clients.CLIENTS", "auto"),
        ),
        Argument("--project", help="put everything into this project", metavar="SLUG"),
        flag("--dry-run", "count, store nothing"),
        logged=True,
    ),
    Command(
        "process",
        "run the pipeline now: inbox, segments, summaries, rollups",
        "process_command.process",
        flag("--until-idle", "until nothing is left to do (the default)"),
        flag("--dry-run", "estimate what a model would be asked for; do nothing"),
        flag("--rebuild", "rebuild all summaries from the events"),
        logged=True,
    ),
    Command(
        "summarize",
        "summarize any text, as deeply as its length asks for",
        "process_command.summarize",
        Argument("file", help="a text file; - for standard input", metavar="FILE"),
        Argument("--type", default="general", choices=["conversation", "journal", "document", "general"]),
        Argument("--prior", help="an earlier summary to carry on from", metavar="FILE"),
        flag("--markdown", "Markdown with the metrics as YAML front matter"),
    ),
    Command(
        "remember",
        "keep a note",
        "commands.note",
        Argument("text", metavar="TEXT"),
        flag("--pin", "show it at the start of every session"),
        _PROJECT,
    ),
    Command(
        "forget",
        "erase events and all that was made of them, for good",
        "forget_command.run",
        Argument("--session", help="a whole session", one_of=True, metavar="ID"),
        Argument("--event", help="one event, by its id or by the grip of a hit", one_of=True, metavar="ID"),
        Argument("--project", help="a whole project", one_of=True, metavar="SLUG"),
        Argument("--before", help='all that is older, such as 2024-01-15 or "last year"', one_of=True, metavar="DATE"),
        Argument("--match", help="every event that holds this text", one_of=True, metavar="TEXT"),
        flag("--dry-run", "count, erase nothing"),
        _YES,
    ),
    Command(
        "demo", "load the sample history if memory is empty, and show what can be done with it", "import_command.demo"
    ),
    Command(
        "toc",
        "the table of contents",
        "commands.toc",
        Argument("--depth", default="day", choices=["year", "month", "week", "day", "segment"]),
        Argument("--topic", help="only branches that speak of it", metavar="T"),
        _PROJECT,
        _BUDGET,
    ),
    Command(
        "node",
        "one node with its bullets and children",
        "commands.node",
        Argument("id", help="such as toc:day:2024-01-15", metavar="ID"),
        flag("--history", "all versions"),
        Argument("--topic", help="only children that speak of it", metavar="T"),
        _PROJECT,
        _BUDGET,
    ),
    Command(
        "grip",
        "the exact words behind a bullet or hit",
        "commands.grip",
        Argument("id", help="such as grip:1705330800000:01HN4QXKN6YWXVKZ3JMHP4BCDE", metavar="ID"),
        Argument("--before", help="events before (default 3)", type=int, default=3, metavar="N"),
        Argument("--after", help="events after (default 3)", type=int, default=3, metavar="N"),
        _PROJECT,
        _BUDGET,
    ),
    Command(
        "search",
        "teleport: the passages that hold these words",
        "commands.search",
        Argument("query", metavar="QUERY", type=str),  # with --when, no words ask for all of that time
        Argument("--limit", type=int, default=10, metavar="N"),
        Argument("--kind", help="event, grip, segment, day, week, month or year"),
        Argument("--when", help='such as "last week" or 2024-01-15..2024-01-18', metavar="PHRASE"),
        Argument("--cursor", help="go on where an earlier answer ended"),
        flag("--diverse", "spread the hits over sessions"),
        _PROJECT,
        _BUDGET,
    ),
    Command(
        "timeline",
        "what happened in a time",
        "commands.timeline",
        Argument("when", help='such as yesterday, "Jan 15-18", 2024-W03', metavar="WHEN"),
        Argument("--topic", help="only what speaks of it", metavar="T"),
        _PROJECT,
        _BUDGET,
    ),
    Command(
        "export",
        "take the memory along: all events, or the tree as Markdown files",
        "export_command.export",
        Argument("--format", default="jsonl", choices=["jsonl", "markdown"]),
        Argument("-o", "--output", help="file (jsonl) or directory (markdown); default: stdout", metavar="PATH"),
        _PROJECT,
    ),
    Command("backup", "a complete copy of the database", "export_command.backup", Argument("path", metavar="PATH")),
    Command("status", "what is stored, what waits, when something last happened", "commands.show_status"),
    Command(
        "projects",
        "the projects in memory; rename or merge them, or trust a directory with one",
        "commands.projects",
        Argument("action", nargs="?", choices=["list", "rename", "merge", "trust"], default="list"),
        Argument("names", help="rename OLD NEW, merge SOURCE TARGET, or trust NAME", nargs="*", metavar="SLUG"),
    ),
    Command(
        "context",
        "everything around a place in memory, packed into a token budget",
        "commands.context",
        Argument("--focus", help="a node, grip, event or session; default: the latest day", metavar="ID"),
        Argument("--query", help="let teleport choose the focus", metavar="Q"),
        Argument("--budget", help="at most so long (default 4000)", type=int, default=4_000, metavar="TOKENS"),
        Argument("--order", default="top-down", choices=["top-down", "u-curve"]),
        Argument("--levels", help="which summaries, such as year,week,day; default: all", metavar="LEVELS"),
        flag("--detailed", "summaries with all their bullets and grips"),
        Argument("--top-k", help="linked items or children (default 5)", type=int, default=5, metavar="N"),
        flag("--no-memo", "without the pinned notes"),
        Argument("--since", help="only what has changed since", metavar="SNAPSHOT"),
        Argument("--at", help="as memory was then", metavar="SNAPSHOT"),
        _PROJECT,
    ),
    Command("snapshot", "a position in memory's log, for context --since and --at", "commands.snapshot"),
    Command("session", "a session's records and its latest messages", "commands.session", _SESSION, _BUDGET),
    Command(
        "compact",
        "make a record of a session now, if it is time",
        "commands.compact",
        _SESSION,
        flag("--force", "even if it is not time yet"),
        logged=True,
    ),
    Command(
        "serve",
        "MCP server; stdio by default",
        "server.serve",
        flag("--http", "streamable HTTP instead, on loopback, with a token"),
        Argument("--host", default="127.0.0.1"),
        Argument("--port", type=port, default=8765),
        Argument("--allow-host", help="a further Host name to accept", action="append", default=[], metavar="NAME"),
        needs=Needs.NOTHING,
    ),
    Command(
        "install",
        "register the capture hook and the MCP server with a client",
        "install_command.install",
        Argument("--scope", help="default: user", default="user", choices=["user", "project"]),
        _CLIENT,
        flag("--dry-run", "print what would change, as a diff"),
        _YES,
        needs=Needs.SETTINGS,
    ),
    Command(
        "uninstall",
        "undo install: every settings file is as it was, in all scopes",
        "install_command.uninstall",
        _CLIENT,
        flag("--dry-run", "print what would change"),
        _YES,
        needs=Needs.SETTINGS,
    ),
    Command(
        "doctor",
        "look for what keeps memory from working, and say how to fix it",
        "doctor.doctor",
        flag("--repair", "repair a damaged database, the index and the tree first"),
        needs=Needs.NOTHING,
    ),
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; never shows a traceback."""
    # Other streams that are closed become empty, or the next file that is opened would be taken for them.
    for name, mode in (("stdin", "r"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # to the end of the process
    if sys.stdout is None:
        print("mcp-memory: standard output is closed. Write `> /dev/null` if no one should read it.", file=sys.stderr)
        return 1
    words = sys.argv[1:] if argv is None else argv
    options = parser(as_json="--json" in words).parse_args(words)
    command = next(command for command in COMMANDS if command.name == options.command)
    try:
        code = run(command, options)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("mcp-memory: interrupted", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output has gone; there is no one left to tell.
        sys.stderr.close()
        return 0
    except Exception as error:  # the last resort: whatever was not foreseen, a full disk behind stdout included
        return _unforeseen(error, as_json=options.json)


def run(command: Command, options: argparse.Namespace) -> int:
    """Call the command's function with what it needs, and print what it answers."""
    if command.name == "serve":
        # Nothing else is imported before the server: it has to answer soon, and sets up its own log.
        return int(load(command.run)(options))
    # A command is short and keeps most of what it makes: looking for garbage as often as usual finds next to none.
    gc.set_threshold(OBJECTS_MADE)
    from mcp_memory import config
    from mcp_memory.errors import MemoryFault, UsageError, alone
    from mcp_memory.surfaces import output

    async def with_memory() -> int:
        async with AsyncExitStack() as stack:
            with output.spinner("Opening the memory", enabled=not options.json):
                app = await stack.enter_async_context(load("mcp_memory.app.open_app")(settings, typed=True))
            # What is loaded by now stays to the end: no search for garbage needs to go through it.
            gc.freeze()
            return output.result(await load(command.run)(app, options))

    output.warn_on_stderr()
    try:
        if command.needs is Needs.NOTHING:
            return output.result(load(command.run)(options))
        settings = config.load()
        if command.needs is Needs.SETTINGS:
            return output.result(load(command.run)(settings, options))
        if command.logged and not getattr(options, "dry_run", False):
            output.keep_log(settings.home)
        import anyio

        with alone():
            return anyio.run(with_memory)
    except MemoryFault as error:
        output.fail(error.typed, as_json=options.json)
        return 2 if isinstance(error, UsageError) else 1


def _unforeseen(error: Exception, *, as_json: bool) -> int:
    """One line for the user; the log, if there is one, gets the rest."""
    import logging

    logging.getLogger("mcp_memory").info("A command failed", exc_info=error)
    told = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and error.filename is not None:
        name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else str(error.filename)
        # A name can be the very thing that was too long.
        shown = name if len(name) <= SHOWN_NAME else f"{name[:SHOWN_NAME]}…"
        told = f"{shown}: {error.strerror}"
    message = f"{told}. `mcp-memory doctor` looks for what is wrong."
    try:
        if as_json:
            print(json.dumps({"error": message}))
        sys.stdout.flush()
    except OSError:
        # What could not be written would be tried again, and complained of, when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    print(f"mcp-memory: {message}", file=sys.stderr)
    return 1


class _Parser(argparse.ArgumentParser):
    """Tells wrong usage as JSON too, where that is asked for."""

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> object:
        # Given as an option's value, two dashes are dropped, and what is left is a list with nothing in it.
        if action.option_strings and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "'--' is not a value; give one or leave the option out")
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        from mcp_memory.domain.text import clean

        message = clean(message)
        if self.get_default("as_json"):
            print(json.dumps({"error": f"{message} (`{self.prog} --help` tells more)"}))
        super().error(message)


def parser(*, as_json: bool = False) -> argparse.ArgumentParser:
    root = _Parser(
        prog="mcp-memory", description="Long-term memory for coding agents: local, private, provable.", epilog=_EPILOG
    )
    root.set_defaults(as_json=as_json)
    root.add_argument("--version", action="version", version=f"mcp-memory {__version__}")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        own: argparse.ArgumentParser = commands.add_parser(command.name, help=command.help, description=command.help)
        # The type of whatever is text and names none.
        own.register("type", None, _given)
        own.set_defaults(as_json=as_json)
        own.add_argument("--json", action="store_true", help="one JSON document on stdout")
        one_of = any(each.one_of for each in command.arguments)
        group = own.add_mutually_exclusive_group(required=True) if one_of else own
        for each in command.arguments:
            (group if each.one_of else own).add_argument(*each.flags, **each.options)
    return root


def _given(text: str) -> str:
    # Left out it would mean something else than what was meant by giving it: all projects, all times, all that changed.
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty, as from an unset shell variable; give a value or leave it out")
    return text
