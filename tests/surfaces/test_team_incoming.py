"""What laptops push to a team's server and take back: the asker's own, clean, once, and nothing that it only claims."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from mcp_memory.domain.events import EventQuery, event_key, ulid
from mcp_memory.surfaces.team import laptop_routes
from mcp_memory.surfaces.team.serving import TAKEN_IN
from tests.surfaces.team_server import TeamDesk, team_server

pytestmark = pytest.mark.anyio
AT_MS = 1_772_442_000_000
STAMP = "2026-03-02T09:00:00.000Z"


def line(name: str, text: str, session: str = "s1", **more: Any) -> dict[str, Any]:
    """A line as an export has it."""
    told = {
        "event_id": ulid(AT_MS, event_key("claude-code", session, name)),
        "client": "claude-code",
        "session_id": session,
        "project": "shop",
        "remote": "github.com/acme/shop",
        "timestamp": STAMP,
        "event_type": "user_message",
        "role": "user",
        "text": text,
        "source_ids": [name],
        "metadata": {"via": "transcript"},
    }
    return told | more


def body(lines: Iterable[dict[str, Any]], **head: Any) -> bytes:
    return gzip.compress("\n".join(json.dumps(each) for each in [{"format": 1} | head, *lines]).encode())


async def push(client: httpx2.AsyncClient, *lines: dict[str, Any]) -> dict[str, Any]:
    answer = await client.post("/team/push", content=body(lines), headers={"content-encoding": "gzip"})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def texts(desk: TeamDesk) -> list[tuple[str, str, str]]:
    return [(event.author, event.visibility, event.text) for event in await desk.store.events(EventQuery())]


async def test_pushed_events_are_the_team_s_and_of_the_one_whose_token_it_is(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada, desk.client("bob") as bob:
        lies = {"author": "root", "visibility": "private"}
        told = await push(ada, line("1", "The cache goes to SQLite.", **lies), line("2", "Done."))
        assert told == {"new": 2, "known": 0, "refused": []}
        assert await push(ada, line("2", "Done."), line("3", "Next.")) == {"new": 1, "known": 1, "refused": []}
        assert {(author, seen) for author, seen, _ in await texts(desk)} == {("ada", "team")}
        assert [project["slug"] for project in (await bob.get("/team/me")).json()["projects"]] == ["shop"]
        await desk.memory.audit.write()
        [row] = [row for row in await desk.store.audit("ada", 9) if row.many == 2]
        assert (row.action, row.project, row.outcome) == ("POST /team/push", "shop", "ok")


async def test_the_server_redacts_and_clips_again(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    async with team_server(tmp_path) as desk, desk.client("ada") as ada:
        leaky = line("1", f"token: {secret}", metadata={"cwd": f"/x/{secret}"}, source_ids=[secret])
        long = line("2", "word " * 30_000)
        assert (await push(ada, leaky, long))["new"] == 2
        [first, second] = await desk.store.events(EventQuery())
        assert secret not in f"{first}"
        assert second.truncated
        assert len(second.text.encode()) <= desk.memory.settings.capture.max_event_bytes


async def test_what_does_not_belong_there_is_refused_and_the_rest_is_taken(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada, desk.client("bob") as bob:
        await push(ada, line("1", "It is ada's."))
        odd = [
            line("1", "It is bob's now.", session="s2") | {"event_id": line("1", "")["event_id"]},
            line("9", "I go on in ada's session."),
            line("2", "A note.", session="s2", event_type="note"),
            line("3", "Pinned.", session="s2", metadata={"pin": True}),
            line("4", "Was a note.", session="notes:/home/bob"),
            line("5", "Too late.", session="s2", timestamp="2999-01-01T00:00:00Z"),
            line("6", "No project.", session="s2", project="", remote=""),
            line("7", "Odd id.", session="s2", event_id="nonsense"),
            {"event_id": "?"},
        ]
        told = await push(bob, *odd, line("8", "This is fine.", session="s2"))
        assert (told["new"], told["known"], len(told["refused"])) == (1, 0, len(odd))
        assert all(row["reason"] for row in told["refused"])
        assert {row["event_id"] for row in told["refused"]} >= {each["event_id"] for each in odd}
        assert await texts(desk) == [("ada", "team", "It is ada's."), ("bob", "team", "This is fine.")]
        assert (await desk.store.events(EventQuery(session_id="s1")))[0].source_ids == ("1",)


async def test_readers_write_nothing_and_who_is_no_member_does_not_push_into_a_project(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada, desk.client("bob") as bob:
        await push(ada, line("1", "Ours."))
        await push(bob, line("2", "Mine.", session="s2"))
        await desk.store.add_member("shop", "ada")
        for session in ("s2", "s3"):
            told = await push(bob, line("3", "May I?", session=session))
            assert (told["new"], [row["reason"][:16] for row in told["refused"]]) == (0, ["you are no membe"])
        assert (await push(ada, line("4", "I may.")))["new"] == 1
        async with desk.client("rita") as rita:
            for path in ("/team/push", "/team/withdraw"):
                answer = await rita.post(path, content=body([]), headers={"content-encoding": "gzip"})
                assert (answer.status_code, "reader" in answer.json()["error"]) == (403, True)


async def test_only_one_s_own_is_withdrawn_and_only_what_is_forgotten_stays_away(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada, desk.client("bob") as bob:
        lines = [line("1", "Keep?"), line("2", "Forget?")]
        await push(ada, *lines)
        ids = [each["event_id"] for each in lines]
        for client, many in ((bob, 0), (ada, 2), (ada, 0)):
            answer = await client.post("/team/withdraw", json={"event_ids": ids, "forget": False})
            assert answer.json() == {"events": many}
        assert (await push(ada, *lines))["new"] == 2
        await ada.post(
            "/team/withdraw", json={"event_ids": [ulid(0, event_key("claude-code", "s1", "2"))], "forget": True}
        )
        assert await push(ada, *lines) == {"new": 0, "known": 2, "refused": []}
        assert [text for *_, text in await texts(desk)] == ["Keep?"]
        wrong: dict[str, Any]
        for wrong in ({}, {"event_ids": "x", "forget": True}, {"event_ids": ["x"], "forget": True}, {"event_ids": []}):
            assert (await ada.post("/team/withdraw", json=wrong)).status_code == 400


async def test_bodies_that_are_too_large_or_no_push_are_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada:
        packed = {"content-encoding": "gzip"}

        async def status(content: bytes, headers: dict[str, str] = packed) -> int:
            answer = await ada.post("/team/push", content=content, headers=headers)
            assert answer.json()["error"]
            return answer.status_code

        assert await status(b"no gzip") == await status(body([])[:-9]) == await status(body([], format=2)) == 400
        assert await status(b"", {}) == 400
        assert await status(gzip.compress(b"\n" * (laptop_routes.MOST_LINES + 3))) == 400
        many = b'{"format": 1}' + b"\n{}" * (laptop_routes.MOST_LINES + 1)
        assert await status(gzip.compress(many)) == 413
        monkeypatch.setattr(laptop_routes, "MOST_BYTES", 3_000_000)
        assert await status(gzip.compress(b" " * 50_000_000)) == 413
        monkeypatch.setattr(laptop_routes, "MOST_SENT", 1_000)
        assert await status(b"x" * 2_000, {}) == 413
        assert await texts(desk) == []


async def test_what_is_pushed_waits_for_its_turn_and_no_question_waits_for_it(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada, desk.client("bob") as bob:
        await push(ada, line("1", "The walrus sleeps."))
        turns = desk.memory.taking_in
        others = [object() for _ in range(TAKEN_IN)]
        for other in others:
            await turns.acquire_on_behalf_of(other)
        told: list[dict[str, Any]] = []

        async def push_more() -> None:
            told.append(await push(ada, line("2", "The walrus wakes.")))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(push_more)
                await anyio.wait_all_tasks_blocked()
                asked = {"tool": "teleport", "arguments": {"query": "walrus"}, "project": "*"}
                answer = (await bob.post("/team/ask", json=asked)).json()
                assert [hit["text"] for hit in answer["hits"]] == ["The walrus sleeps."]
                assert not told
                for other in others:
                    turns.release_on_behalf_of(other)
        assert told == [{"new": 1, "known": 0, "refused": []}]
