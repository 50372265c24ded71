"""What a client waits for when it starts the server, against a server of the same SDK that offers nothing."""

from __future__ import annotations

from pathlib import Path

import anyio

from bench.histories import SAMPLE_NOW, fill_with_sample, opened
from bench.measure import Figure, against, interleaved
from bench.processes import first_answers

ROUNDS = 20
_EMPTY = ("-c", "from mcp.server.mcpserver import MCPServer; MCPServer('empty').run('stdio')")
_OURS = ("-m", "mcp_memory", "serve")


def run(scratch: Path, *, large: bool) -> list[Figure]:
    home = scratch / "server"
    anyio.run(_create, home)
    taken = interleaved(
        ROUNDS,
        {
            "empty": lambda: first_answers(_EMPTY, home)[0],
            "ours": lambda: first_answers(_OURS, home)[0],
            "tool": lambda: first_answers(_OURS, home, "toc_root")[1],
        },
    )
    return [
        against("spawn to the answer to initialize", taken["ours"], taken["empty"], 1.1),
        against("spawn to the first tool's answer", taken["tool"], taken["empty"]),
    ]


async def _create(home: Path) -> None:
    async with opened(home, SAMPLE_NOW) as app:
        await fill_with_sample(app)
