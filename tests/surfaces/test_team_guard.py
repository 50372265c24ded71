"""Who gets into a team's server: members, by a token that lives, and no one else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mcp import MCPError, types

from mcp_memory.store.postgres.store import PostgresStore
from mcp_memory.store.postgres.viewing import SeenDatabase
from mcp_memory.surfaces.team import guard
from mcp_memory.surfaces.team.laptop_routes import HANDLERS
from mcp_memory.surfaces.team.serving import MAX_STREAMS
from mcp_memory.surfaces.web import routes
from mcp_memory.surfaces.web.routes import PAGES
from mcp_memory.surfaces.web.writes import WRITES
from tests.store.engines import said
from tests.surfaces.team_server import team_server

pytestmark = pytest.mark.anyio
ADDRESSES = [
    "/mcp",
    "/",
    "/live",
    "/live/stream",
    "/recalled",
    "/health",
    *PAGES,
    *WRITES,
    *(path for _, path in HANDLERS),
]


async def test_a_member_is_told_who_it_is_by_its_token_alone(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada:
        told = (await ada.get("/team/me", params={"name": "root"}, headers={"x-user": "root"})).json()
        assert (told["name"], told["role"], told["projects"]) == ("ada", "member", [])
        assert told["server"]
        assert told["version"]


async def test_a_stranger_gets_401_everywhere(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client() as stranger:
        desk.guard.failures.burst = 1e9
        others = ["Bearer mcpm_nobody", f"Basic {desk.tokens['ada']}", f"Bearer {desk.tokens['ada']} x", "Bearer"]
        for path in ADDRESSES:
            for method in ("GET", "POST", "DELETE"):
                answer = await stranger.request(method, path, json={})
                assert answer.status_code == 401, path
                assert "/.well-known/oauth-protected-resource/mcp" in answer.headers["www-authenticate"]
            for claim in others:
                assert (await stranger.get(path, headers={"authorization": claim})).status_code == 401, (path, claim)


async def test_the_resource_metadata_needs_no_token(tmp_path: Path) -> None:
    async with team_server(tmp_path, allow=("memory.example",), behind_proxy=True) as desk, desk.client() as stranger:
        for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
            told = await stranger.get(path, headers={"host": "memory.example", "x-forwarded-proto": "https"})
            assert told.status_code == 200
            assert told.json()["resource"] == "https://memory.example/mcp"
        assert (await stranger.get("/.well-known/other", headers={"host": "memory.example"})).status_code == 401


async def test_an_expired_or_revoked_token_gets_401_at_once(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk:
        await desk.add_user("short", lasts_ms=-1)
        async with desk.client("short") as short, desk.client("bob") as bob:
            assert (await short.get("/team/me")).status_code == 401
            assert (await bob.get("/team/me")).status_code == 200
            await desk.store.revoke_user("bob", desk.memory.now_ms())
            assert (await bob.get("/team/me")).status_code == 401


async def test_a_stream_of_who_is_revoked_ends_within_a_second(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client("bob") as bob, anyio.create_task_group() as tasks:
        ended = anyio.Event()

        async def listen() -> None:
            await bob.get("/live/stream")
            ended.set()

        tasks.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        await desk.store.revoke_user("bob", desk.memory.now_ms())
        with anyio.fail_after(1.5):
            await ended.wait()


async def test_the_local_token_opens_no_team_server(tmp_path: Path) -> None:
    from mcp_memory.surfaces.http import token_of

    async with team_server(tmp_path) as desk, desk.client() as stranger:
        token = token_of(desk.memory.settings)
        assert (await stranger.get("/team/me", headers={"authorization": f"Bearer {token}"})).status_code == 401


async def test_other_hosts_and_pages_are_refused(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada:
        assert (await ada.get("/team/me", headers={"host": "evil.example"})).status_code == 421
        assert (await ada.get("/team/me", headers={"origin": "https://evil.example"})).status_code == 403


async def test_who_asks_too_often_is_told_to_wait_and_no_one_else(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada, desk.client("bob") as bob:
        desk.guard.rate.burst, desk.guard.rate.per_second = 3, 0.001
        answers = [await ada.get("/team/me") for _ in range(5)]
        assert [answer.status_code for answer in answers][:3] == [200, 200, 200]
        assert answers[-1].status_code == 429
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert (await bob.get("/team/me")).status_code == 200


async def test_who_guesses_tokens_is_soon_not_listened_to(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client() as stranger:
        guesses = [await stranger.get("/team/me", headers={"authorization": f"Bearer mcpm_{n}"}) for n in range(12)]
        assert {answer.status_code for answer in guesses[:10]} == {401}
        assert guesses[-1].status_code == 429
        assert "retry-after" in guesses[-1].headers
        form = await stranger.post("/enter", data={"token": "guess"})
        assert form.status_code == 429
        async with desk.client("ada") as ada:  # behind the same router
            assert (await ada.get("/team/me")).status_code == 200


async def test_a_guess_in_the_form_counts_too(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client() as stranger:
        codes = [(await stranger.post("/enter", data={"token": f"guess {n}"})).status_code for n in range(12)]
        assert codes[:10] == [401] * 10
        assert codes[-1] == 429


async def test_a_member_has_ten_streams_at_most_and_others_have_their_own(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada, desk.client("bob") as bob:
        streams = desk.memory.streams
        async with anyio.create_task_group() as tasks:
            for _ in range(MAX_STREAMS):
                tasks.start_soon(ada.get, "/live/stream")
            await anyio.wait_all_tasks_blocked()
            while streams._open["ada"] < MAX_STREAMS:
                await anyio.wait_all_tasks_blocked()
            for path in ("/live/stream", "/mcp"):
                answer = await ada.get(path, headers={"accept": "text/event-stream"})
                assert (answer.status_code, "retry-after" in answer.headers) == (429, True)
            wish = {"notifications": {"resourceSubscriptions": ["memory://status"]}}
            async with desk.agent("ada") as agent:
                with pytest.raises(MCPError, match="too many streams"):
                    await agent.session.send_request(
                        types.SubscriptionsListenRequest(
                            params=types.SubscriptionsListenRequestParams.model_validate(wish)
                        ),
                        types.SubscriptionsListenResult,
                    )
            assert (await ada.get("/team/me")).status_code == 200
            with streams.one("bob") as is_free:
                assert is_free
            assert (await bob.get("/team/me")).status_code == 200
            tasks.cancel_scope.cancel()
        assert not streams._open


async def test_an_open_page_asks_the_database_for_nothing_until_something_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LOOK_SECONDS", 0.002)
    monkeypatch.setattr(routes, "LOOK_SECONDS", 0.002)
    monkeypatch.setattr(routes, "_IDLE_LOOKS", 10_000)
    monkeypatch.setattr(guard, "_SURE_LOOKS", 10_000)
    looks, reads, token_reads = 0, 0, 0
    data_version, read, viewer_of = SeenDatabase.data_version, SeenDatabase._read, PostgresStore.viewer_of

    async def looked(self: SeenDatabase, *, own: bool = False) -> int:
        nonlocal looks
        looks += 1
        return await data_version(self, own=own)

    def counted(self: SeenDatabase, work: Any) -> Any:
        nonlocal reads
        reads += 1
        return read(self, work)

    async def looked_up(self: PostgresStore, token: str, now_ms: int) -> Any:
        nonlocal token_reads
        token_reads += 1
        return await viewer_of(self, token, now_ms)

    async with team_server(tmp_path) as desk, anyio.create_task_group() as tasks:
        monkeypatch.setattr(SeenDatabase, "data_version", looked)
        monkeypatch.setattr(SeenDatabase, "_read", counted)
        monkeypatch.setattr(PostgresStore, "viewer_of", looked_up)
        news = anyio.Event()

        async def receive() -> dict[str, Any]:
            await anyio.sleep_forever()
            raise AssertionError

        async def send(message: Any) -> None:
            if b"event: news" in message.get("body", b""):
                news.set()

        headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {desk.tokens['ada']}".encode())]
        scope = {"type": "http", "method": "GET", "path": "/live/stream", "query_string": b"", "headers": headers}
        scope |= {"scheme": "http", "server": ("127.0.0.1", 80), "client": ("10.0.0.9", 1), "root_path": ""}
        # A page is opened by a browser's session; the stream is the same.
        monkeypatch.setattr(guard.TeamGuard, "_access_of", lambda self, scope, headers: token_of(self, headers))

        async def token_of(self: guard.TeamGuard, headers: Any) -> Any:
            return await self.verifier.verify_token(headers["authorization"].removeprefix("Bearer "))

        tasks.start_soon(desk.guard, scope, receive, send)
        with anyio.fail_after(30):
            while looks < 20:
                await anyio.lowlevel.checkpoint()
            # What the server itself wrote at its start may have been told late.
            before = reads, token_reads
            while looks < 220:
                await anyio.lowlevel.checkpoint()
            assert reads - before[0] <= 40
            assert token_reads - before[1] <= 5
            await desk.tell("bob", said("There is news.", 1))
            await news.wait()
        tasks.cancel_scope.cancel()


async def test_a_token_is_looked_up_once_a_second_and_at_once_when_access_has_changed_anywhere(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, PostgresStore.open(desk.store.database.url) as elsewhere:
        now, lookups = 0.0, 0
        verifier = guard.Verifier(desk.memory, lambda: now)
        viewer_of = desk.store.viewer_of

        async def counted(token: str, now_ms: int) -> Any:
            nonlocal lookups
            lookups += 1
            return await viewer_of(token, now_ms)

        desk.store.viewer_of = counted  # type: ignore[method-assign]
        token = desk.tokens["ada"]
        while (version := desk.store.access_version()) < 1:
            await anyio.lowlevel.checkpoint()
        for _ in range(9):
            assert await verifier.verify_token(token) is not None
        now = guard.BELIEVED_SECONDS
        assert await verifier.verify_token(token) is not None
        assert lookups <= 2 + desk.store.access_version() - version
        assert await verifier.verify_token("mcpm_nobody") is None
        assert await verifier.verify_token("mcpm_nobody") is None  # which is not believed
        # Another process of the operator's revokes her.
        version = desk.store.access_version()
        await elsewhere.revoke_user("ada", desk.memory.now_ms())
        with anyio.fail_after(10):
            while desk.store.access_version() == version:
                await anyio.sleep(0.001)
        assert await verifier.verify_token(token) is None
        # And who is revoked here is not believed for a moment.
        assert await verifier.verify_token(desk.tokens["bob"]) is not None
        await desk.store.revoke_user("bob", desk.memory.now_ms())
        assert await verifier.verify_token(desk.tokens["bob"]) is None
