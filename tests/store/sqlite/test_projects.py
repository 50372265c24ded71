"""Projects can be renamed and merged, and stay so for what is captured later."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_memory.store.sqlite.database import Transaction
from tests.support import all_nodes, conversation, database_of, learn, memory

pytestmark = pytest.mark.anyio


async def test_a_merge_gives_one_tree_and_keeps_every_word(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*conversation(), *conversation("2026-03-03", session="s2", project="beta")])
        assert await app.store.merge("beta", "alpha") == 1
        await learn(app, [])
        nodes = await all_nodes(app)
        assert {node.project for node in nodes} == {"alpha"}
        assert {node.ref.key for node in nodes if node.level == 3} == {"2026-03-02", "2026-03-03"}
        found, _ = await app.answers.search("mobile app", "alpha")
        assert {hit.session_id for hit in found.hits if hit.kind in ("event", "grip")} == {"s1", "s2"}
        await database_of(app).write(Transaction.run, "INSERT INTO search (search) VALUES ('integrity-check')")
