"""Remembering where copies were written to and transcripts were imported from, so that `forget` can name them."""

from __future__ import annotations

from pathlib import Path

from anyio import to_thread

from mcp_memory.app import App
from mcp_memory.store.inbox_port import CopyKind, CopyMade


async def note_place(app: App, path: Path, kind: CopyKind) -> None:
    """Remember a file or a directory outside the data directory."""
    absolute = await to_thread.run_sync(path.absolute)
    await app.inbox.note_copies([CopyMade(str(absolute), kind)], app.spending.now_ms())
