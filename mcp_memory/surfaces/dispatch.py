"""From a command to the function that does it: the memory is opened, and no module loaded that is not asked for."""

from __future__ import annotations

import argparse
import gc
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any

import anyio

from mcp_memory import config
from mcp_memory.app import open_app
from mcp_memory.errors import MemoryFault, UsageError, alone
from mcp_memory.surfaces import logs, output

#: The commands that work on the memory; the others only read it, or say all there is to say.
LOGGED = frozenset({"import", "process", "compact"})
#: Module and function of every command that is given the open memory.
COMMANDS = {
    "import": "writing.load",
    "process": "writing.process",
    "summarize": "summarizing.summarize",
    "remember": "commands.note",
    "forget": "forgetting.run",
    "demo": "writing.demo",
    "toc": "commands.toc",
    "node": "commands.node",
    "grip": "commands.grip",
    "search": "commands.search",
    "timeline": "commands.timeline",
    "context": "contexts.context",
    "snapshot": "contexts.snapshot",
    "session": "contexts.session",
    "compact": "contexts.compact",
    "export": "exporting.export",
    "backup": "exporting.backup",
    "status": "commands.show_status",
    "projects": "commands.projects",
}
#: Commands that need the settings, but must work when the memory itself cannot be opened.
WITHOUT_MEMORY = {"install": "installing.install", "uninstall": "installing.uninstall"}


def run(options: argparse.Namespace) -> int:
    logs.to_stderr()
    try:
        if options.command == "doctor":
            return int(function("doctor.doctor")(options))
        settings = config.load()
        if getattr(options, "set_aside_corrupt", False):
            function("salvaging.set_aside")(settings, options)
        if options.command in WITHOUT_MEMORY:
            return int(function(WITHOUT_MEMORY[options.command])(settings, options))
        if options.command in LOGGED and not getattr(options, "dry_run", False):
            logs.keep(settings.home)
        with alone():
            return anyio.run(_with_app, settings, options)
    except MemoryFault as error:
        output.fail(error.typed, as_json=getattr(options, "json", False))
        return 2 if isinstance(error, UsageError) else 1


async def _with_app(settings: config.Settings, options: argparse.Namespace) -> int:
    async with AsyncExitStack() as stack:
        with output.spinner("Opening the memory", enabled=not options.json):
            app = await stack.enter_async_context(open_app(settings, typed=True))
        # What is loaded by now stays to the end: no search for garbage needs to go through it.
        gc.freeze()
        return int(await function(COMMANDS[options.command])(app, options))


def function(name: str) -> Any:
    """A function of one of the surfaces, by the names of its module and itself."""
    module, _, attribute = name.partition(".")
    return getattr(import_module(f"{__package__}.{module}"), attribute)
