"""What laptops push to a team's server and take back: the asker's own, clean, once, and nothing that it only claims."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import re
import tracemalloc
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from starlette.requests import Request

from mcp_memory.domain.events import EventQuery, Intake, event_key, ulid
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.errors import StoreRejected, TooLarge
from mcp_memory.store.postgres import team as team_store
from mcp_memory.store.team_port import Received
from mcp_memory.surfaces.team import incoming, laptop_routes
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
    """Return what the server says of these events, without the mark that each of its answers has."""
    answer = await client.post("/team/push", content=body(lines), headers={"content-encoding": "gzip"})
    assert answer.status_code == 200, answer.text
    return {name: value for name, value in answer.json().items() if name != "erasure"}


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
            assert answer.json()["events"] == many
        assert (await push(ada, *lines))["new"] == 2
        await ada.post(
            "/team/withdraw", json={"event_ids": [ulid(0, event_key("claude-code", "s1", "2"))], "forget": True}
        )
        assert await push(ada, *lines) == {"new": 0, "known": 2, "refused": []}
        assert [text for *_, text in await texts(desk)] == ["Keep?"]
        wrong: dict[str, Any]
        for wrong in ({}, {"event_ids": "x", "forget": True}, {"event_ids": ["x"], "forget": True}, {"event_ids": []}):
            assert (await ada.post("/team/withdraw", json=wrong)).status_code == 400


async def test_ids_stay_their_owner_s_after_they_were_taken_back(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada, desk.client("bob") as bob:
        lines = [line("1", "Ours."), line("2", "Yours.")]
        await push(ada, *lines)
        for forget in (False, True):
            ids = [each["event_id"] for each in (lines if not forget else lines[:1])]
            assert (await ada.post("/team/withdraw", json={"event_ids": ids, "forget": forget})).status_code == 200
            # In the same session, in one of his own, and in the session under other ids.
            stolen = [*lines[: len(ids)], lines[0] | {"session_id": "s2"}, line("9", "Mine now.")]
            for one in stolen:
                told = await push(bob, one)
                assert told["new"] == told["known"] == 0
                assert ["someone else's" in row["reason"] for row in told["refused"]] == [True]
            again = await push(ada, *lines, line("3", "More."))
            assert (again["new"] + again["known"], again["refused"]) == (3, [])
        assert [text for *_, text in await texts(desk)] == ["Yours.", "More."]


async def test_what_an_operator_forgets_leaves_the_session_its_owner_s(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada, desk.client("bob") as bob:
        await push(ada, line("1", "Ours."))
        await desk.store.forget(ForgetRequest(session_id="s1", only_stored=True), dry_run=False)
        assert (await push(bob, line("2", "Mine now.")))["new"] == 0
        assert (await push(ada, line("2", "I go on.")))["new"] == 1


async def test_no_push_and_no_member_begins_many_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team_store, "MAX_PROJECTS", 25)

    def of_projects(*numbers: int) -> list[dict[str, Any]]:
        return [line(str(n), "x", session=f"s{n}", project=f"p{n}", remote=f"example.org/r/{n}") for n in numbers]

    async with team_server(tmp_path) as desk, desk.client("ada") as ada, desk.client("bob") as bob:
        packed = {"content-encoding": "gzip"}
        answer = await ada.post("/team/push", content=body(of_projects(*range(21))), headers=packed)
        assert answer.status_code == 413
        assert await desk.store.slugs() == []
        assert (await push(ada, *of_projects(*range(20))))["new"] == 20
        told = await push(ada, *of_projects(*range(18, 27)))
        assert (told["new"], told["known"], len(told["refused"])) == (5, 2, 2)
        assert "25 projects" in told["refused"][0]["reason"]
        # To withdraw all does not free a place: the projects are there.
        ids = [each["event_id"] for each in of_projects(*range(20))]
        await ada.post("/team/withdraw", json={"event_ids": ids, "forget": False})
        assert (await push(ada, *of_projects(30)))["new"] == 0
        # Others begin their own, and she shares into theirs and hers.
        assert (await push(bob, *of_projects(40)))["new"] == 1
        hers = [line("50", "x", session="s50", project="p40", remote="example.org/r/40"), *of_projects(3)]
        assert (await push(ada, *hers))["new"] == 2


async def test_bodies_that_are_too_large_or_no_push_are_told_so(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada:
        packed = {"content-encoding": "gzip"}

        async def status(content: bytes, headers: dict[str, str] = packed) -> int:
            answer = await ada.post("/team/push", content=content, headers=headers)
            assert answer.json()["error"]
            return answer.status_code

        assert await status(b"no gzip") == await status(body([])[:-9]) == await status(body([], format=2)) == 400
        assert await status(b"", {}) == 400
        # Of two streams the second would be left out, and the laptop would take its events for stored.
        assert await status(body([line("1", "x")]) + body([line("2", "y")])) == 400
        assert await status(gzip.compress(b"\n" * (incoming.MAX_LINES + 3))) == 400
        many = b'{"format": 1}' + b"\n{}" * (incoming.MAX_LINES + 1)
        assert await status(gzip.compress(many)) == 413
        # More than a hundred times what is sent, and more than any push.
        assert await status(gzip.compress(b" " * 5_000_000)) == 413
        incompressible = random.Random(1).randbytes(4_000_000).hex().encode() * 3
        assert len(incompressible) > incoming.MAX_UNPACKED_BYTES > len(packed_text := gzip.compress(incompressible))
        assert len(packed_text) * incoming.MAX_RATIO > len(incompressible)
        assert await status(packed_text) == 413
        values = line("1", "x", metadata={"a": [1] * 1_900})
        assert await status(body(line(str(n), "x") | {"metadata": values["metadata"]} for n in range(150))) == 413
        assert await texts(desk) == []


async def test_a_body_that_is_longer_than_any_is_not_read_to_its_end(tmp_path: Path) -> None:
    read = 0

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += 1_000_000
        return {"type": "http.request", "body": b"x" * 1_000_000, "more_body": True}

    with pytest.raises(TooLarge):
        await incoming.received(Request({"type": "http", "headers": []}, receive))
    assert read <= incoming.MAX_SENT_BYTES + 1_000_000


def test_no_body_takes_more_than_a_few_times_its_limit_to_unpack_and_parse() -> None:
    head = b'{"format": 1}\n'
    values = json.dumps(line("1", "x", metadata={"a": [[]] * 1_990})).encode() + b"\n"
    hostile = [
        head + b"{}\n" * 5_000_000,
        head + values * 1_500,
        head + b'{"metadata": {"a": [' + b",".join([b"[]"] * 200_000) + b"]}}",
        head + b"[" * 1_900_000,
        head + b"\n" * 15_000_000 + b"{}",
    ]
    for text in hostile:
        tracemalloc.start()
        with contextlib.suppress(TooLarge):
            incoming.portion_of(text, AT_MS)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 6 * incoming.MAX_UNPACKED_BYTES, text[:60]
    bomb = gzip.compress(b" " * 90_000_000)
    tracemalloc.start()
    with pytest.raises(TooLarge):
        incoming.unpacked(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * incoming.MAX_UNPACKED_BYTES


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        ("long name", {"session_id": "s" * 20_000}),
        ("long project", {"project": "p" * 20_000}),
        ("long remote", {"remote": "github.com/" + "r" * 20_000}),
        ("long line's name", {"source_ids": ["n" * 20_000]}),
        ("many lines' names", {"source_ids": ["n"] * 3_000}),
        ("a source that is no text", {"metadata": {"via": {"a": 1}}}),
        ("much metadata", {"metadata": {"a": "x" * 70_000}}),
        ("many values", {"metadata": {"a": [0] * 2_001}}),
        ("a long line", {"text": random.Random(1).randbytes(1_000_001).hex()}),
    ],
)
async def test_one_event_that_is_not_taken_is_refused_with_its_reason_and_the_rest_is_taken(
    tmp_path: Path, name: str, odd: dict[str, Any]
) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada:
        wrong = line("2", "Odd.") | odd
        told = await push(ada, line("1", "One."), wrong, line("3", "Three."))
        assert told["new"] == 2, name
        [refused] = told["refused"]
        assert refused["event_id"] == wrong["event_id"]
        assert re.search("longer|too many|more than|not a string", refused["reason"])


async def test_the_same_key_twice_in_one_push_is_one_event(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada:
        one = line("1", "One.")
        later = one | {"event_id": ulid(AT_MS + 1, event_key("claude-code", "s1", "1"))}
        later |= {"timestamp": "2026-03-02T09:00:00.001Z"}
        told = await push(ada, one, one, later, one | {"session_id": "s2"}, line("2", "Two."))
        assert told == {"new": 2, "known": 0, "refused": []}
        assert [text for *_, text in await texts(desk)] == ["One.", "Two."]


async def test_an_event_at_which_the_store_fails_is_found_and_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada:
        receive, calls = desk.store.receive, 0

        async def failing(intakes: Sequence[Intake]) -> Received:
            nonlocal calls
            calls += 1
            for intake in intakes:
                for event in intake.events:
                    if "bad" in event.text:
                        raise TypeError("unhashable")
                    if "worse" in event.text:
                        raise StoreRejected("postgresql://host does not take it")
            return await receive(intakes)

        monkeypatch.setattr(desk.store, "receive", failing)
        lines = [line(str(n), f"This is {n}.") for n in range(32)]
        lines[7] |= {"text": "This is bad."}
        lines[20] |= {"text": "This is worse."}
        told = await push(ada, *lines)
        assert told["new"] == 30
        assert [row["event_id"] for row in told["refused"]] == [lines[7]["event_id"], lines[20]["event_id"]]
        assert all("cannot store it" in row["reason"] for row in told["refused"])
        assert calls < 25

        async def status(*lines: dict[str, Any]) -> int:
            packed = {"content-encoding": "gzip"}
            return (await ada.post("/team/push", content=body(lines), headers=packed)).status_code

        # A value that is never taken is the event's fault. If nothing works at all, the server is at fault.
        assert await status(lines[20]) == 200
        assert await status(lines[7]) == 500
        monkeypatch.setattr(laptop_routes, "_MAX_TRIES", 3)
        assert await status(*(one | {"text": "bad"} for one in lines)) == 413


async def test_text_that_postgresql_never_takes_is_refused_and_the_rest_is_taken(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client("ada") as ada:
        odd = line("2", "Two.", session="s2", project="a\u0000b", remote="")
        told = await push(ada, line("1", "One."), odd, line("3", "Three."))
        assert told["new"] + len(told["refused"]) == 3
        assert told["new"] >= 2
        assert [row["event_id"] for row in told["refused"]] in ([], [odd["event_id"]])
        assert (await push(ada, odd))["new"] in (0, told["new"] - 2)


async def test_nothing_is_unpacked_before_it_is_its_turn_and_a_member_pushes_one_thing_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked: list[bytes] = []

    def unpack(body: bytes) -> bytes:
        unpacked.append(body)
        return incoming.unpacked(body)

    monkeypatch.setattr(laptop_routes, "unpacked", unpack)
    async with team_server(tmp_path) as desk, desk.client("ada") as ada, desk.client("bob") as bob:
        turns = desk.memory.taking_in
        others = [object() for _ in range(TAKEN_IN)]
        for other in others:
            await turns.acquire_on_behalf_of(other)
        codes: list[int] = []

        async def push_one(client: httpx2.AsyncClient, name: str) -> None:
            packed = {"content-encoding": "gzip"}
            sent = body([line(name, "Said.", session=name)])
            codes.append((await client.post("/team/push", content=sent, headers=packed)).status_code)

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for number in range(incoming.MAX_WAITING + 3):
                    tasks.start_soon(push_one, ada, f"a{number}")
                tasks.start_soon(push_one, bob, "b")
                while len(codes) < 2 or turns.statistics().tasks_waiting < 2:
                    await anyio.wait_all_tasks_blocked()
                assert codes == [429, 429]  # more of ada's than may wait
                assert turns.statistics().tasks_waiting == 2  # one of ada's, and bob's
                assert unpacked == []
                for other in others:
                    turns.release_on_behalf_of(other)
        assert sorted(codes) == [200] * (incoming.MAX_WAITING + 2) + [429, 429]
        assert desk.memory.turns == incoming.Turns()


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
