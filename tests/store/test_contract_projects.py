"""What every engine must keep of projects that are known by a repository's remote: joined, parted, and one for all."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from mcp_memory.domain.events import NOTES_CLIENT, EventQuery, Intake
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.projects import ProjectPlace
from mcp_memory.domain.toc import Level
from mcp_memory.errors import NotFound, UsageError
from mcp_memory.store.port import Store
from tests.store.engines import Open, build, said, talk

pytestmark = pytest.mark.anyio

SHOP, FORK = "github.com/acme/shop", "github.com/ada/shop"


async def tell(store: Store, session: str, root: str, remote: str = "", *, label: str = "", day: int = 0) -> None:
    await store.add([Intake(tuple(talk(session, day)), root, label, remote)])


async def test_notes_alone_are_no_sessions_of_a_project(opened: Open) -> None:
    async with opened() as store:
        note = replace(talk("notes:/a/work")[0], client=NOTES_CLIENT)
        await store.add([Intake((note,), "/a/work")])
        assert [await store.has_sessions(name) for name in ("work", "other")] == [False, False]
        await tell(store, "s1", "/a/work")
        assert await store.has_sessions("work")
        await store.forget(ForgetRequest(session_id="s1"), dry_run=False)
        assert not await store.has_sessions("work")


async def test_a_remote_makes_places_one_project_that_is_found_by_each_of_them(opened: Open) -> None:
    async with opened() as store:
        await tell(store, "s1", "/a/work", SHOP)
        await tell(store, "s2", "/b/other", SHOP)
        await tell(store, "s3", "/c/fork", FORK)
        fork = await store.project_of_root("/c/fork", "")
        assert fork != "shop"
        for root, remote in (("/a/work", ""), ("/b/other", ""), ("/new", SHOP), ("/a/work", SHOP)):
            assert await store.project_of_root(root, "", remote) == "shop"
        assert await store.project_of_root("/new", "") is None
        assert await store.project_of_root("/a/work", "", "github.com/acme/else") is None
        assert await store.remotes() == {"shop": SHOP, fork: FORK}
        [info] = [info for info in await store.projects() if info.slug == "shop"]
    assert (info.root, info.remotes, info.sessions) == ("/a/work", (SHOP,), 2)
    assert info.places == (ProjectPlace("/a/work", SHOP), ProjectPlace("/b/other", SHOP, joined=True))


async def test_projects_of_before_are_joined_with_one_tree_and_every_word(opened: Open) -> None:
    async with opened() as store:
        for number, root in enumerate(("/a/alpha", "/b/beta")):
            await tell(store, f"s{number}", root, day=number)
        await build(store)
        await tell(store, "s0 later", "/a/alpha", SHOP, day=2)
        await tell(store, "s1 later", "/b/beta", SHOP, day=3)
        await build(store)
        assert await store.slugs() == ["alpha"]
        days = await store.nodes(NodeQuery(level=Level.DAY))
        assert [(day.project, day.ref.key[-2:]) for day in days] == [("alpha", f"0{number}") for number in range(2, 6)]
        assert len(await store.events(EventQuery("alpha"))) == 8
        [info] = await store.projects()
        assert info.places[1] == ProjectPlace("/b/beta", SHOP, True, "beta")


async def test_split_gives_back_name_sessions_and_tree_and_is_not_undone(opened: Open) -> None:
    async with opened() as store:
        for number, root in enumerate(("/a/alpha", "/b/beta")):
            await tell(store, f"s{number}", root, day=number)
            await tell(store, f"s{number} later", root, SHOP, day=number)
        await tell(store, "s2", "/c/gamma", SHOP, day=2)
        await build(store)
        assert await store.split("alpha", []) == {"/b/beta": "beta", "/c/gamma": "gamma"}
        await build(store)
        days = await store.nodes(NodeQuery(level=Level.DAY))
        assert [(day.project, day.ref.key[-2:]) for day in days] == [("alpha", "02"), ("beta", "03"), ("gamma", "04")]
        await tell(store, "s3", "/b/beta", SHOP)
        await tell(store, "s4", "/d/delta", SHOP)
        assert await store.project_of_root("/b/beta", "", SHOP) == "beta"
        counts = {info.slug: (info.sessions, info.remotes) for info in await store.projects()}
        assert counts == {"alpha": (3, (SHOP,)), "beta": (3, ()), "gamma": (1, ())}
        for wrong in (["/nowhere"], ["/a/alpha"], ["remote:" + SHOP]):
            with pytest.raises((NotFound, UsageError)):
                await store.split("alpha", wrong)
        with pytest.raises(UsageError, match="Nothing was joined"):
            await store.split("beta", [])


async def test_a_place_with_several_roots_comes_back_as_one_project(opened: Open) -> None:
    async with opened() as store:
        for root in ("/a/alpha", "/b/beta", "/c/gamma"):
            await tell(store, root, root)
        await store.merge("gamma", "beta")
        await tell(store, "s1", "/a/alpha", SHOP)
        await tell(store, "s2", "/b/beta", SHOP)
        assert await store.slugs() == ["alpha"]
        assert await store.split("alpha", []) == {"/b/beta": "beta", "/c/gamma": "beta"}
        assert {info.slug: info.sessions for info in await store.projects()} == {"alpha": 2, "beta": 3}


async def test_what_was_merged_by_hand_stays_where_the_user_put_it(opened: Open) -> None:
    async with opened() as store:
        await tell(store, "s1", "/a/alpha", SHOP)
        await tell(store, "s2", "/b/beta", FORK)
        await tell(store, "s3", "/c/gamma")
        await store.merge("gamma", "shop")
        fork = await store.project_of_root("/b/beta", "") or ""
        await tell(store, "s4", "/c/gamma", FORK)
        assert await store.project_of_root("/c/gamma", "", FORK) == "shop"
        assert {info.slug: info.sessions for info in await store.projects()} == {"shop": 3, fork: 1}
        await store.merge(fork, "shop")
        assert await store.project_of_root("/new", "", FORK) == "shop"
        assert (await store.projects())[0].remotes == (SHOP, FORK)


async def test_an_export_s_lines_go_to_the_project_of_their_remote_and_else_to_that_of_their_name(opened: Open) -> None:
    async with opened() as store:
        await tell(store, "s1", "/a/work", SHOP)
        await tell(store, "s2", "/p/plain")
        for number, (label, remote) in enumerate(
            [("store", SHOP), ("shop", FORK), ("shop", FORK), ("plain", "github.com/acme/plain"), ("new", "h/x/new")]
        ):
            await tell(store, f"i{number}", "", remote, label=label)
        fork = await store.project_of_root("/new", "", FORK) or ""
        counts = {info.slug: info.sessions for info in await store.projects()}
        assert counts == {"shop": 2, fork: 2, "plain": 2, "new": 1}
        assert fork.startswith("shop-")
        # A name alone lets no remote lead to what was there before.
        assert await store.project_of_root("/new", "", "github.com/acme/plain") is None
        await tell(store, "s3", "/home/new", "h/x/new")
        assert (await store.project_of_root("/home/new", ""), len(await store.slugs())) == ("new", 4)


async def test_what_is_forgotten_with_a_project_leaves_no_place_behind(opened: Open) -> None:
    async with opened() as store:
        await tell(store, "s1", "/a/work", SHOP)
        await tell(store, "s2", "/b/other", SHOP)
        _, coverage = await store.forget(ForgetRequest(project="shop"), dry_run=True)
        assert coverage.covers(0, "/new", "", "", SHOP)
        assert not coverage.covers(0, "/new", "", "", FORK)
        await store.forget(ForgetRequest(project="shop", only_stored=True), dry_run=False)
        await store.add([Intake((said("Something else.", 7, session="s3"),), "/b/other")])
        assert [(info.slug, info.places[0].remote) for info in await store.projects()] == [("other", "")]


async def test_two_processes_that_meet_a_repository_at_once_make_one_project(opened: Open) -> None:
    async def take(store: Store, root: str) -> None:
        for number in range(10):
            await store.add([Intake((said(f"Message {number}.", number, session=f"{root} {number}"),), root, "", SHOP)])

    async with opened() as one, opened() as two, anyio.create_task_group() as tasks:
        tasks.start_soon(take, one, "/a/work")
        tasks.start_soon(take, two, "/b/work")
    async with opened() as store:
        assert [(info.slug, info.sessions, len(info.places)) for info in await store.projects()] == [("shop", 20, 2)]
