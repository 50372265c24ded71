"""The serve command. It imports nothing of the store: the server opens that after it has answered the handshake."""

from __future__ import annotations

import argparse

from mcp_memory import config
from mcp_memory.errors import MemoryFault, UsageError
from mcp_memory.surfaces.server import run_http, run_stdio


def serve(options: argparse.Namespace) -> int:
    try:
        settings = config.load()
        if options.http:
            return run_http(settings, options.host, options.port, options.allow_host, as_json=options.json)
        return run_stdio(settings)
    except MemoryFault as error:
        from mcp_memory.surfaces import output

        # Over stdio, stdout belongs to the protocol.
        output.fail(error.typed, as_json=options.json and options.http)
        return 2 if isinstance(error, UsageError) else 1
