"""Projects can be renamed and merged, and stay so for what is captured later."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_memory.errors import NotFound, UsageError
from mcp_memory.store.sqlite.database import Transaction
from tests.support import all_nodes, conversation, database_of, learn, memory, said

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


async def test_what_comes_later_from_a_merged_project_joins_it(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*conversation(), *conversation(session="s2", project="beta")])
        await app.store.merge("beta", "alpha")
        await learn(app, [said("One more from beta.", "2026-03-05T09:00:00Z", session="s3", project="beta")])
        assert await app.store.slugs() == ["alpha"]


async def test_a_renamed_project_keeps_its_memory_and_its_root(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        assert await app.store.rename("alpha", "Omega One") == "omega-one"
        await learn(app, [said("More of it.", "2026-03-05T09:00:00Z", session="s3", project="alpha")])
        assert await app.store.slugs() == ["omega-one"]
        assert (await all_nodes(app))[0].project == "omega-one"


async def test_wrong_names_are_refused(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*conversation(), *conversation(session="s2", project="beta")])
        with pytest.raises(UsageError, match="merge"):
            await app.store.rename("alpha", "beta")
        with pytest.raises(UsageError, match="itself"):
            await app.store.merge("alpha", "alpha")
        with pytest.raises(NotFound, match="nowhere"):
            await app.store.merge("alpha", "nowhere")
