"""From a hook on a laptop to the team's server and back out of it: real processes, over loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_memory.domain.events import Event, EventQuery
from mcp_memory.store.postgres.store import PostgresStore
from tests.postgres import free_port, new_database
from tests.surfaces.desk import Desk
from tests.surfaces.shell import SCRIPT, here

#: Sends what waits, and dies once the server has taken it, before the laptop knows.
KILLED = """
import os, signal, anyio
from mcp_memory import config
from mcp_memory.app import open_app
from mcp_memory.team.client import TeamClient

real = TeamClient.post

async def post(self, path, *rest, **named):
    answer = await real(self, path, *rest, **named)
    os.kill(os.getpid(), signal.SIGKILL)

TeamClient.post = post

async def main():
    async with open_app(config.load()) as app:
        await app.pusher.push()

anyio.run(main)
"""


class Server:
    """The team's server as a process, which can be killed and started anew at the same address."""

    def __init__(self, root: Path) -> None:
        self.root, self.database, self.port = root, new_database(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = {"PATH": os.environ["PATH"], "HOME": str(root), "MCP_MEMORY_HOME": str(root / "server")}
        self.env |= {"MCP_MEMORY_STORE_URL": self.database}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = [str(SCRIPT), "serve", "--http", "--team", "--port", str(self.port)]
        no = subprocess.DEVNULL
        self.process = subprocess.Popen(words, env=self.env, cwd=self.root, stdin=no, stdout=no, stderr=no)
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            with pytest.raises(subprocess.TimeoutExpired):  # it lives
                self.process.wait(0.1)
        raise AssertionError("the server does not listen")

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def team(self, *words: str) -> dict[str, Any]:
        done = here(("team", *words, "--json"), self.env, self.root)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def events(self) -> list[Event]:
        async def read() -> list[Event]:
            async with PostgresStore.open(self.database) as store:
                return await store.events(EventQuery())

        return anyio.run(read)

    def said(self) -> list[str]:
        return [event.text for event in self.events() if event.text]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    made.start()
    yield made
    made.kill()


def talk(desk: Desk, place: Path, session: str, words: str) -> dict[str, Any]:
    desk.hook(place, "UserPromptSubmit", session, prompt=words)
    return desk.json("process")


def joined(desk: Desk, server: Server, name: str) -> str:
    file = desk.root / "token"
    file.write_text(server.team("user", "add", name)["token"])
    told = desk.json("team", "join", server.url, "--token-file", str(file))
    assert (told["joined"], told["name"], told["server"]) == (True, name, server.url)
    return file.read_text()


@pytest.mark.slow
def test_what_is_shared_on_a_laptop_comes_to_the_team_and_goes_again(tmp_path: Path, server: Server) -> None:
    desk = Desk(tmp_path)
    place = desk.repository("shop")
    (place / ".git/config").write_text('[remote "origin"]\n\turl = git@git.example.org:acme/shop.git\n')
    talk(desk, place, "s1", "Said before it was shared.")
    token = joined(desk, server, "ada")
    assert desk.json("share") == {"shared": []}
    assert "pushed" not in desk.json("process") or desk.json("process")["pushed"] == 0
    asked = desk.run("share", "shop")
    assert (asked.returncode, f"{server.url}, where you are ada" in asked.stderr) == (2, True)
    assert desk.json("share", "shop", "--yes")["events"] == 0
    talk(desk, place, "s1", "Said <private>hunter2</private> since then.")
    desk.at(place, "remember", "A note of my own.")
    assert desk.json("team", "push")["new"] == 0
    [event] = server.events()
    assert (event.author, event.project, event.session_id) == ("ada", "shop", "s1")
    assert "hunter2" not in event.text
    [part] = desk.json("team", "status")["shared"]
    assert (part["project"], part["events"], part["waiting"], part["seen_by"]) == ("shop", 1, 0, "team")
    again = desk.run("team", "join", server.url, "--token-file", str(desk.root / "token")).stdout
    assert "Shared already is shop. `mcp-memory share PROJECT`" in again
    server.team("project", "add", "shop", "ada")
    assert "its members see it" in desk.run("team", "status").stdout
    [mine] = [json.loads(line) for line in desk.run("export").stdout.splitlines() if "since then" in line]
    assert (mine["event_id"], mine["text"], mine["remote"]) == (event.event_id, event.text, "git.example.org/acme/shop")

    # Killed when the server has taken it, and then without a server: nothing is lost, and nothing comes twice.
    desk.hook(place, "UserPromptSubmit", "s1", prompt="Said while processes die.")
    server.kill()
    told = desk.json("process")
    assert "cannot be reached" in told["push"]
    assert desk.json("status")["team"]["waiting"] == 1
    server.start()
    died = subprocess.run([sys.executable, "-c", KILLED], env=desk.environment, cwd=place, capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert (desk.json("status")["team"]["waiting"], len(server.events())) == (1, 2)
    assert desk.json("team", "push") == {"new": 0, "known": 1, "declined": 0, "withdrawn": 0}
    assert len(server.events()) == 2

    # Forgotten here is forgotten there; taken back while the server is away, it goes when that is there again.
    assert desk.json("forget", "--match", "since then", "--yes")["to_forget"] == 0
    assert server.said() == ["Said while processes die."]
    server.kill()
    forgotten = desk.run("forget", "--match", "processes die", "--yes")
    assert "has not been told yet to forget 1 shared events" in forgotten.stdout
    assert "1 event for the team's server (`mcp-memory process`" in desk.run("status").stdout
    talk(desk, place, "s2", "Said in another session.")
    assert desk.json("share", "--session", "s1", "--yes")["events"] == 1
    server.start()
    assert desk.json("process")["pushed"] == 2
    assert sorted(server.said()) == ["Said before it was shared.", "Said in another session."]
    back = desk.run("unshare", "shop")
    assert "2 events of 2 sessions of shop are private again" in back.stdout
    assert "The team's server has given them back." in back.stdout
    assert (server.said(), desk.json("share")["shared"]) == ([], [])
    desk.json("unshare", "--session", "s1")
    assert desk.run("team", "status").stdout.endswith("s1: kept private\n")

    # A leaver's token dies.
    assert desk.json("share", "shop", "--since", "2020", "--yes")["events"] == 1
    server.team("user", "revoke", "ada")
    refused = desk.run("team", "push")
    assert (refused.returncode, "does not accept the token" in refused.stderr) == (1, True)
    assert "does not accept the token" in desk.json("team", "status")["trouble"]
    assert "the team's server does not accept the token" in desk.run("doctor").stdout
    assert token not in f"{refused} {desk.run('team', 'status')}"
    assert desk.json("team", "leave")["joined"] is False
    assert not (desk.home / "team.json").exists()
    assert "in no team" in desk.run("team", "status").stdout
    assert desk.run("team", "push").returncode == 2


def test_who_has_not_joined_imports_nothing_that_speaks_http(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    place = desk.repository("shop")
    talk(desk, place, "s1", "Nothing leaves.")
    desk.json("share", "shop", "--since", "2020", "--yes")
    code = "import sys\nfrom mcp_memory.surfaces import cli\ncli.main(['process'])\n"
    code += "print([name for name in sys.modules if name.startswith('http') or name == 'h11'])"
    done = subprocess.run([sys.executable, "-c", code], env=desk.environment, cwd=place, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
    assert desk.json("team", "status")["joined"] is False
    assert desk.json("status")["team"] == {"joined": False, "waiting": 1}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("team", "join", "http://memory.example.org"), "Use https"),
        (("team", "join", "https://127.0.0.1:9"), "This is no token"),
        (("team", "join", "https://127.0.0.1:9", "--token-file", "/nowhere"), "/nowhere cannot be read"),
        (("team", "join"), "It is `mcp-memory team join URL [--token-file FILE]`"),
        (("team", "leave"), "in no team"),
        (("share", "nowhere", "--yes"), "no project 'nowhere'"),
        (("share", "--session", "nothing", "--yes"), "nothing"),
        (("share", "a", "--session", "b"), "not both"),
        (("share", "--since", "yesterday"), "Name the project"),
        (("unshare",), "Name a project"),
    ],
)
def test_what_cannot_be_shared_or_joined_says_what_to_do(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    done = Desk(tmp_path).run(*words)
    assert (done.returncode in (1, 2), told in done.stderr) == (True, True), done.stderr
