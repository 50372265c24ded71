"""The command line: arguments in, one answer out. Heavy parts are imported by the command that needs them."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from mcp_memory import __version__

_EPILOG = "Exit codes: 0 done, 1 failed, 2 wrong usage. Data lives in MCP_MEMORY_HOME; only a model you set gets any."

#: How many objects a command makes before garbage is looked for.
OBJECTS_MADE = 50_000
#: How much of a file's name a message repeats.
SHOWN_NAME = 200
_CLIENTS = ["auto", "claude-code", "codex", "gemini", "cursor", "jsonl"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; never shows a traceback."""
    if not _streams_are_open():
        print("mcp-memory: standard output is closed. Write `> /dev/null` if no one shall read it.", file=sys.stderr)
        return 1
    words = sys.argv[1:] if argv is None else argv
    options = parser(as_json="--json" in words).parse_args(words)
    try:
        code = _run(options)
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


def _streams_are_open() -> bool:
    """Whether there is someone to tell. What else was closed becomes empty, lest an open file is taken for it."""
    for name, mode in (("stdin", "r"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # to the end of the process
    return sys.stdout is not None


def _run(options: argparse.Namespace) -> int:
    if options.command == "serve":
        from mcp_memory.surfaces.serving import serve

        return serve(options)
    # A command is short and keeps most of what it makes: looking for garbage as often as usual finds next to none.
    gc.set_threshold(OBJECTS_MADE)
    from mcp_memory.surfaces.dispatch import run

    return run(options)


def _unforeseen(error: Exception, *, as_json: bool) -> int:
    """One line for the user; the log, if there is one, gets the rest."""
    import logging

    logging.getLogger("mcp_memory").info("A command failed", exc_info=error)
    message = f"{_short(error)}. `mcp-memory doctor` looks for what is wrong."
    try:
        if as_json:
            print(json.dumps({"error": message}))
        sys.stdout.flush()
    except OSError:
        # What could not be written would be tried again, and complained of, when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    print(f"mcp-memory: {message}", file=sys.stderr)
    return 1


def _short(error: Exception) -> str:
    """What went wrong, in a line. A name can be the very thing that was too long."""
    if isinstance(error, OSError) and error.filename is not None:
        name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else str(error.filename)
        shown = name if len(name) <= SHOWN_NAME else f"{name[:SHOWN_NAME]}…"
        return f"{shown}: {error.strerror}"
    return f"{type(error).__name__}: {error}"


class _Parser(argparse.ArgumentParser):
    """Tells wrong usage as JSON too, where that is asked for."""

    as_json = False

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> object:
        # Given as an option's value, two dashes are dropped, and what is left is a list with nothing in it.
        if action.option_strings and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "'--' is no value; give one or leave the option out")
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        from mcp_memory.domain.text import clean

        message = clean(message)
        if self.as_json:
            print(json.dumps({"error": f"{message} (`{self.prog} --help` tells more)"}))
        super().error(message)


class _JsonParser(_Parser):
    as_json = True


def parser(*, as_json: bool = False) -> argparse.ArgumentParser:
    make = _JsonParser if as_json else _Parser
    root: argparse.ArgumentParser = make(
        prog="mcp-memory", description="Long-term memory for coding agents: local, private, provable.", epilog=_EPILOG
    )
    root.add_argument("--version", action="version", version=f"mcp-memory {__version__}")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _writing(commands)
    _reading(commands)
    _context(commands)
    _serving(commands)
    _installing(commands)
    return root


def _writing(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    load = _add(
        commands, "import", "old history into memory: every place the known clients keep it, or the paths given"
    )
    load.add_argument("paths", nargs="*", metavar="PATH", help="transcript files or directories; - for standard input")
    load.add_argument("--client", default="auto", choices=_CLIENTS, help="default: by content")
    load.add_argument("--project", metavar="SLUG", help="put everything into this project")
    load.add_argument("--dry-run", action="store_true", help="count, store nothing")
    process = _add(commands, "process", "run the pipeline now: inbox, segments, summaries, rollups")
    process.add_argument("--until-idle", action="store_true", help="until nothing is left to do (the default)")
    process.add_argument("--dry-run", action="store_true", help="estimate what a model would be asked for; do nothing")
    process.add_argument("--rebuild", action="store_true", help="make all summaries anew from the events")
    process.add_argument(
        "--set-aside-corrupt", action="store_true", help="rename a damaged database and bring over what can be read"
    )
    text = _add(commands, "summarize", "summarize any text, as deeply as its length asks for")
    text.add_argument("file", metavar="FILE", help="a text file; - for standard input")
    text.add_argument("--type", default="general", choices=["conversation", "journal", "document", "general"])
    text.add_argument("--prior", metavar="FILE", help="an earlier summary to carry on from")
    text.add_argument("--markdown", action="store_true", help="Markdown with the metrics as YAML front matter")
    note = _add(commands, "remember", "keep a note")
    note.add_argument("text", metavar="TEXT")
    note.add_argument("--pin", action="store_true", help="show it at the start of every session")
    _project(note)
    forget = _add(commands, "forget", "erase events and all that was made of them, for good")
    wish = forget.add_mutually_exclusive_group(required=True)
    wish.add_argument("--session", metavar="ID", help="a whole session")
    wish.add_argument("--event", metavar="ID", help="one event, by its id or by the grip of a hit")
    wish.add_argument("--project", metavar="SLUG", help="a whole project")
    wish.add_argument("--before", metavar="DATE", help='all that is older, such as 2024-01-15 or "last year"')
    wish.add_argument("--match", metavar="TEXT", help="every event that holds this text")
    forget.add_argument("--dry-run", action="store_true", help="count, erase nothing")
    forget.add_argument("--yes", action="store_true", help="do not ask")
    _add(commands, "demo", "load the sample history if memory is empty, and show what can be done with it")


def _reading(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    toc = _add(commands, "toc", "the table of contents")
    toc.add_argument("--depth", default="day", choices=["year", "month", "week", "day", "segment"])
    toc.add_argument("--topic", metavar="T", help="only branches that speak of it")
    node = _add(commands, "node", "one node with its bullets and children")
    node.add_argument("id", metavar="ID", help="such as toc:day:2024-01-15")
    node.add_argument("--history", action="store_true", help="all versions")
    node.add_argument("--topic", metavar="T", help="only children that speak of it")
    grip = _add(commands, "grip", "the exact words behind a bullet or hit")
    grip.add_argument("id", metavar="ID", help="such as grip:1705330800000:01HN4QXKN6YWXVKZ3JMHP4BCDE")
    grip.add_argument("--before", type=int, default=3, metavar="N", help="events before (default 3)")
    grip.add_argument("--after", type=int, default=3, metavar="N", help="events after (default 3)")
    search = _add(commands, "search", "teleport: the passages that hold these words")
    search.add_argument("query", metavar="QUERY", type=str)  # with --when, no words ask for all of that time
    search.add_argument("--limit", type=int, default=10, metavar="N")
    search.add_argument("--kind", help="event, grip, segment, day, week, month or year")
    search.add_argument("--when", metavar="PHRASE", help='such as "last week" or 2024-01-15..2024-01-18')
    search.add_argument("--cursor", help="go on where an earlier answer ended")
    search.add_argument("--diverse", action="store_true", help="spread the hits over sessions")
    timeline = _add(commands, "timeline", "what happened in a time")
    timeline.add_argument("when", metavar="WHEN", help='such as yesterday, "Jan 15-18", 2024-W03')
    timeline.add_argument("--topic", metavar="T", help="only what speaks of it")
    for reader in (toc, node, grip, search, timeline):
        _project(reader)
        reader.add_argument("--budget", type=int, metavar="TOKENS", help="the text is at most so long")
    export = _add(commands, "export", "take the memory along: all events, or the tree as Markdown files")
    export.add_argument("--format", default="jsonl", choices=["jsonl", "markdown"])
    export.add_argument("-o", "--output", metavar="PATH", help="file (jsonl) or directory (markdown); default: stdout")
    _project(export)
    backup = _add(commands, "backup", "a complete copy of the database")
    backup.add_argument("path", metavar="PATH")
    _add(commands, "status", "what is stored, what waits, when something last happened")
    projects = _add(commands, "projects", "the projects in memory; rename or merge them, or trust a directory with one")
    projects.add_argument("action", nargs="?", choices=["list", "rename", "merge", "trust"], default="list")
    projects.add_argument("names", nargs="*", metavar="SLUG", help="rename OLD NEW, merge SOURCE TARGET, or trust NAME")


def _context(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    context = _add(commands, "context", "everything around a place in memory, packed into a token budget")
    context.add_argument("--focus", metavar="ID", help="a node, grip, event or session; default: the latest day")
    context.add_argument("--query", metavar="Q", help="let teleport choose the focus")
    context.add_argument("--budget", type=int, default=4_000, metavar="TOKENS", help="at most so long (default 4000)")
    context.add_argument("--order", default="top-down", choices=["top-down", "u-curve"])
    context.add_argument("--levels", metavar="LEVELS", help="which summaries, such as year,week,day; default: all")
    context.add_argument("--detailed", action="store_true", help="summaries with all their bullets and grips")
    context.add_argument("--top-k", type=int, default=5, metavar="N", help="linked items or children (default 5)")
    context.add_argument("--no-memo", action="store_true", help="without the pinned notes")
    context.add_argument("--since", metavar="SNAPSHOT", help="only what has changed since")
    context.add_argument("--at", metavar="SNAPSHOT", help="as memory was then")
    _project(context)
    _add(commands, "snapshot", "a position in memory's log, for context --since and --at")
    session = _add(commands, "session", "a session's records and its latest messages")
    session.add_argument("id", metavar="ID", help="the session's id, as search and grip show it")
    session.add_argument("--budget", type=int, metavar="TOKENS", help="the text is at most so long")
    compact = _add(commands, "compact", "make a record of a session now, if it is time")
    compact.add_argument("id", metavar="ID", help="the session's id")
    compact.add_argument("--force", action="store_true", help="even if it is not time yet")


def _serving(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    serve = _add(commands, "serve", "MCP server; stdio by default")
    serve.add_argument("--http", action="store_true", help="streamable HTTP instead, on loopback, with a token")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=_port, default=8765)
    serve.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a further Host name to accept"
    )


def _installing(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    clients = ["claude-code", "codex", "gemini", "cursor"]
    install = _add(commands, "install", "register the capture hook and the MCP server with a client")
    install.add_argument("--scope", default="user", choices=["user", "project"], help="default: user")
    undo = _add(commands, "uninstall", "undo install: every settings file is as it was, in all scopes")
    for command, text in ((install, "print what would change, as a diff"), (undo, "print what would change")):
        command.add_argument("client", nargs="?", choices=clients, help="default: every one found, after asking")
        command.add_argument("--dry-run", action="store_true", help=text)
        command.add_argument("--yes", action="store_true", help="do not ask")
    _add(commands, "doctor", "look for what keeps memory from working, and say how to mend it")


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    # The type of whatever is text and names none.
    command.register("type", None, _given)
    command.add_argument("--json", action="store_true", help="one JSON document on stdout")
    return command


def _given(text: str) -> str:
    # Left out it would mean something else than what was meant by giving it: all projects, all times, all that changed.
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty, as from an unset shell variable; give a value or leave it out")
    return text


def _port(text: str) -> int:
    # The system would take the number modulo 65,536 and listen somewhere else.
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535, 0 for any that is free")
    return int(text)


def _project(command: argparse.ArgumentParser) -> None:
    command.add_argument("--project", metavar="SLUG", help="default: the one of this directory; '*' for all")
