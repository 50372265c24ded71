"""Keep what was forgotten forgotten, also when an older state of the memory is put in its place."""

from __future__ import annotations

from mcp_memory.domain.forget import ForgetCounts
from mcp_memory.store.inbox_port import Inbox
from mcp_memory.store.port import Store


async def keep_forgotten(store: Store, inbox: Inbox) -> ForgetCounts | None:
    """Copy the memory's new tombstones to this machine's own file, or apply those that the memory has lost.

    Return what was erased once more, None if the memory is no older state.
    """
    synced, known = await inbox.tombstone_state()
    marks = await store.erasure_marks()
    if synced == (marks[-1] if marks else ""):
        return None
    again = None
    if synced and synced not in marks:
        again = await store.apply_tombstones(await inbox.tombstone_rows())
    rows, key, mark = await store.tombstone_rows(known)
    await inbox.keep_tombstones(rows, key, mark)
    return again
