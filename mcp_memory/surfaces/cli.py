"""The command line: the parser made from the table of all commands, and the way from a command to its function.

A command is one row of lexicon/commands.json. Its function is named there and imported only when the command is used.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any, Literal, NamedTuple, NoReturn

from mcp_memory import __version__, lexicon
from mcp_memory.errors import did_you_mean

_EPILOG = "Exit codes: 0 done, 1 failed, 2 wrong usage. Data lives in MCP_MEMORY_HOME; only a model you set gets any."
#: How many objects a command makes before garbage is looked for.
OBJECTS_MADE = 50_000
#: How much of a file's name a message repeats.
SHOWN_NAME = 200


class Command(NamedTuple):
    """One command, as a row of lexicon/commands.json says it.

    Its function answers with a document (a dictionary, for --json), a text, or an exit code if it has printed itself.
    Given the `settings`, or `nothing`, it works even on a damaged memory.
    """

    name: str
    help: str
    run: str
    arguments: Sequence[Mapping[str, Any] | str] = ()
    needs: Literal["memory", "settings", "nothing"] = "memory"
    logged: bool = False
    group: str = "look"


_TABLE = lexicon.document("commands")
#: What one can want, by its name, in the order in which help shows it.
GROUPS: dict[str, str] = _TABLE["groups"]
#: Every command, in the order in which help lists them.
COMMANDS = [Command(**row) for row in _TABLE["commands"]]
#: What is run if no command is given.
_NO_COMMAND = Command("", "where you are", "work_commands.here")


class Names:
    """The names in another module's table, which is imported when they are asked for, after the default, if any."""

    def __init__(self, table: str, default: str | None) -> None:
        self._table, self._default = table, default

    def __iter__(self) -> Iterator[str]:
        if self._default:
            yield self._default
        table = load(self._table)
        # As plain words: argparse shows how a value is written, and a member of an enumeration is more than its name.
        yield from (str(name) for name in (table() if callable(table) else table) if name != self._default)


def load(name: str) -> Any:
    """What a dotted name stands for; a module without a package is one of the surfaces."""
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module if "." in module else f"{__package__}.{module}"), attribute)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; never shows a traceback."""
    # Other streams that are closed become empty, or the next file that is opened would be taken for them.
    for name, mode in (("stdin", "r"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # to the end of the process
    if sys.stdout is None:
        print("mcp-memory: standard output is closed. Write `> /dev/null` if no one should read it.", file=sys.stderr)
        return 1
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["__complete"]:
        return int(load("completion_command.complete")(words[1:]))
    command, options = _NO_COMMAND, argparse.Namespace(json=False)
    if words:
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
        # The reader of our output has gone; there is no one left to tell, also when the interpreter ends.
        _drop_output()
        return 0
    except Exception as error:  # the last resort: whatever was not foreseen, a full disk behind stdout included
        return _unforeseen(error, as_json=options.json)


def run(command: Command, options: argparse.Namespace) -> int:
    """Call the command's function with what it needs, and print what it answers."""
    if command.name != "serve":
        # A command is short and keeps most of what it makes: looking for garbage as often as usual finds next to none.
        gc.set_threshold(OBJECTS_MADE)
    # Nothing but this is imported before the server, which has to answer soon.
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
        if command.needs == "nothing":
            return output.result(load(command.run)(options))
        settings = config.load()
        if command.needs == "settings":
            return output.result(load(command.run)(settings, options))
        if command.logged and not getattr(options, "dry_run", False):
            output.keep_log(settings.home)
        import anyio

        with alone():
            return anyio.run(with_memory)
    except MemoryFault as error:
        # Over stdio, a server's stdout belongs to the protocol.
        output.fail(error.typed, as_json=options.json and getattr(options, "http", True))
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
        _drop_output()
    print(f"mcp-memory: {message}", file=sys.stderr)
    return 1


def _drop_output() -> None:
    """What could not be written would be tried again, and complained of, when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Tells wrong usage as JSON too, where that is asked for, and what was likely meant."""

    def parse_args(self, args: Sequence[str], namespace: Any = None) -> Any:  # type: ignore[override]  # never without
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            own = _commands_of(self).choices[options.command]
            known = [flag for action in own._actions for flag in action.option_strings]
            meant = did_you_mean(unknown[0].partition("=")[0], known)
            own.error(f"unrecognized arguments: {' '.join(unknown)}.{meant}")
        return options

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            hint = getattr(action, "hints", {}).get(value)
            meant = f" {hint}" if hint else did_you_mean(str(value), action.choices or ())
            if isinstance(action, argparse._SubParsersAction):
                # There are too many to name them all.
                meant = f"invalid choice: {value!r}.{meant} `{self.prog} --help` lists the commands."
                raise argparse.ArgumentError(action, meant) from None
            raise argparse.ArgumentError(action, f"{error.message}.{meant}") from None

    def format_help(self) -> str:
        """That of the whole program shows the commands by what one wants."""
        if self.usage is None:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, [])
        formatter.add_text(self.description)
        rows = {row.dest: row for row in _commands_of(self)._choices_actions}
        for group, title in GROUPS.items():
            formatter.start_section(title)
            formatter.add_arguments([rows[command.name] for command in COMMANDS if command.group == group])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([action for action in self._actions if action.option_strings])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

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


def _commands_of(root: argparse.ArgumentParser) -> argparse._SubParsersAction[_Parser]:
    return next(action for action in root._actions if isinstance(action, argparse._SubParsersAction))


def parser(*, as_json: bool = False) -> argparse.ArgumentParser:
    root = _Parser(
        prog="mcp-memory",
        usage="mcp-memory [COMMAND] [options]",
        description="Long-term memory for coding agents: local, private, provable. Without a command: where you are.",
        epilog=_EPILOG,
    )
    root.set_defaults(as_json=as_json)
    root.add_argument("--version", action="version", version=f"mcp-memory {__version__}")
    # Each names itself in its usage; else the one above would stand there.
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True, prog=root.prog)
    for command in COMMANDS:
        own: argparse.ArgumentParser = commands.add_parser(command.name, help=command.help, description=command.help)
        # The type of whatever is text and names none.
        own.register("type", None, _given)
        own.set_defaults(as_json=as_json)
        own.add_argument("--json", action="store_true", help="one JSON document on stdout")
        rows = [dict(_TABLE["shared"][row] if isinstance(row, str) else row) for row in command.arguments]
        group = own.add_mutually_exclusive_group(required=True) if any("one_of" in row for row in rows) else own
        for row in rows:
            flags, place = row.pop("name").split(), group if row.pop("one_of", False) else own
            if "type" in row:
                row["type"] = _TYPES[row["type"]]
            if isinstance(row.get("choices"), str):
                row["choices"] = Names(row["choices"], row.get("default"))
            hints = row.pop("hints", {})
            # What is said to values that are none, but well known.
            place.add_argument(*flags, **row).hints = hints  # type: ignore[attr-defined]
    return root


def port(text: str) -> int:
    # The system would take the number modulo 65,536 and listen somewhere else.
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to 65535, 0 for any that is free")
    return int(text)


#: The words of a search may be empty: with --when that asks for all of the time.
_TYPES: dict[str, Callable[[str], Any]] = {"int": int, "port": port, "text": str}


def _given(text: str) -> str:
    # Left out it would mean something else than what was meant by giving it: all projects, all times, all that changed.
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty, as from an unset shell variable; give a value or leave it out")
    return text
