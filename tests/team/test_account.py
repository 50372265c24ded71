"""Who one is on a team's server, and how it is asked: the token stays with its owner, and errors are told apart."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest

from mcp_memory.config import Settings
from mcp_memory.errors import (
    MemoryFault,
    SettingsError,
    TeamDenied,
    TeamFailed,
    TeamFault,
    TeamRefused,
    TeamRejected,
    TeamUnreachable,
    UsageError,
)
from mcp_memory.team.account import FILE, PushState, TeamAccount, checked_token, checked_url, forget_account
from mcp_memory.team.asking import AskedTeam, asked_team
from mcp_memory.team.client import MOST_BYTES, TeamClient

pytestmark = pytest.mark.anyio
TOKEN = "mcpt_0123456789abcdefghij"
ACCOUNT = TeamAccount("https://memory.example.org", "ada", TOKEN)
Reply = Callable[[httpx2.Request], httpx2.Response]


def client(answer: Reply) -> TeamClient:
    return TeamClient(ACCOUNT, httpx2.MockTransport(answer))


def test_an_account_is_kept_for_its_user_alone_and_its_token_is_never_printed(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    assert TeamAccount.load(settings) is None
    ACCOUNT.save(settings)
    assert (settings.home / FILE).stat().st_mode & 0o777 == 0o600
    assert TeamAccount.load(settings) == ACCOUNT
    assert TOKEN not in repr(ACCOUNT)
    PushState(5, "no network").save(settings)
    assert PushState.load(settings) == PushState(5, "no network")
    forget_account(settings)
    forget_account(settings)
    assert TeamAccount.load(settings) is None
    assert list(settings.home.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "nonsense", '{"url": "http://elsewhere.example", "name": "a", "token": "0123456789abcdefg"}'],
)
def test_a_file_that_is_no_account_is_told_with_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(SettingsError, match="team join URL"):
        TeamAccount.load(Settings(home=tmp_path))
    (tmp_path / "team-state.json").write_text(text)
    assert PushState.load(Settings(home=tmp_path)) == PushState()


async def test_a_file_that_is_no_account_is_complained_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_text("{")
    made: dict[int, AskedTeam | None] = {}
    async with AsyncExitStack() as exits:
        assert [asked_team(Settings(home=tmp_path), made, exits) for _ in range(3)] == [None] * 3
    assert caplog.text.count("holds no account") == 1


def test_only_this_machine_may_be_reached_in_the_clear() -> None:
    assert checked_url("https://memory.example.org/") == "https://memory.example.org"
    assert checked_url("http://127.0.0.1:8000") == "http://127.0.0.1:8000"
    assert checked_url("http://[::1]:8000/base/") == "http://[::1]:8000/base"
    for bad in (
        "http://memory.example.org",
        "http://127.0.0.1.example.org",
        "http://127.0.0.1@example.org",
        "https://ada:secret@memory.example.org",
        "ftp://memory.example.org",
        "memory.example.org",
        "https://",
        "https://memory.example.org:0",
        "https://[",
        "",
    ):
        with pytest.raises(UsageError) as found:
            checked_url(bad)
        assert "secret" not in str(found.value)


@pytest.mark.parametrize("token", ["", "short", "0123456789 \n abcdefghij\r\nX-Evil: 1", "ä" * 30, "x" * 5_000])
def test_what_is_no_token_is_not_taken_or_repeated(token: str) -> None:
    with pytest.raises(UsageError) as found:
        checked_token(token)
    assert not token or token not in str(found.value)


async def test_a_request_bears_the_token_and_what_is_sent() -> None:
    seen = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={"new": 1})

    asked = client(answer)
    assert await asked.get("/team/me") == {"new": 1}
    assert await asked.post("/team/withdraw", {"sessions": ["a"]}) == {"new": 1}
    assert await asked.post("/team/push", gzip.compress(b"{}\n"), gzipped=True) == {"new": 1}
    await asked.close()
    assert [str(request.url) for request in seen] == [
        f"https://memory.example.org/team/{name}" for name in ("me", "withdraw", "push")
    ]
    assert {request.headers["authorization"] for request in seen} == {f"Bearer {TOKEN}"}
    assert json.loads(seen[1].content) == {"sessions": ["a"]}
    assert seen[2].headers["content-encoding"] == "gzip"
    assert gzip.decompress(seen[2].content) == b"{}\n"


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (httpx2.Response(401, json={"error": "no"}), TeamRefused),
        (httpx2.Response(403, json={"error": "you only read"}), TeamDenied),
        (httpx2.Response(429, json={"error": "wait"}, headers={"Retry-After": "7"}), TeamUnreachable),
        (httpx2.Response(500, text="<html>"), TeamFailed),
        (httpx2.Response(503, text="", headers={"Retry-After": "soon"}), TeamUnreachable),
        (httpx2.Response(400, json={"error": "bad line"}), TeamRejected),
        (httpx2.Response(413, text="<html>a proxy's page</html>"), TeamRejected),
        (httpx2.Response(400, text="<html>"), TeamFault),
        (httpx2.Response(404, text="<html>"), TeamFault),
        (httpx2.Response(302, headers={"Location": "https://elsewhere.example/"}), TeamFault),
        (httpx2.Response(200, text="<html>a proxy's page</html>"), TeamFault),
        (httpx2.Response(200, json=["a list"]), TeamFault),
        (httpx2.Response(200, text="[" * 100_000), TeamFault),
        (httpx2.Response(200, content=b"x" * (MOST_BYTES + 1)), TeamFault),
    ],
)
async def test_every_answer_that_is_none_is_an_error_of_its_kind(reply: httpx2.Response, kind: type) -> None:
    asked = client(lambda request: reply)
    with pytest.raises(MemoryFault) as found:
        await asked.get("/team/me")
    assert type(found.value) is kind
    assert TOKEN not in str(found.value)
    if isinstance(found.value, TeamUnreachable):
        assert found.value.retry_after == (7 if reply.status_code == 429 else None)
    await asked.close()


async def test_a_server_that_is_not_there_is_unreachable_not_an_unforeseen_error() -> None:
    def fail(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("Connection refused")

    with pytest.raises(TeamUnreachable, match="Connection refused"):
        await client(fail).get("/team/me")
    closed = TeamClient(TeamAccount("http://127.0.0.1:1", "ada", TOKEN))
    with pytest.raises(TeamUnreachable):
        await closed.get("/team/me", timeout=5)
    await closed.close()
