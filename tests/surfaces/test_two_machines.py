"""One person's two machines: what is taken from one to the other by a pipe is the same there, whatever it is called."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.shell import SCRIPT
from tests.surfaces.test_identity import FORK, HTTPS, SHOP, SSH, Office

#: What the documentation says to type, with a host and this machine's side as they are here.
THERE = "mcp-memory export --project '*' | ssh desk mcp-memory import -"
BACK = "ssh desk \"mcp-memory export --project '*'\" | mcp-memory import -"
#: Runs a command as ssh does: joined by spaces, in a shell of the other machine.
SSH_SCRIPT = '#!/bin/sh\nshift\nexport MCP_MEMORY_HOME="$OTHER_HOME"\nexec sh -c "$*"\n'


class Machines:
    """A laptop and a desk, each with a memory and checkouts of its own, and a way from one to the other."""

    def __init__(self, root: Path) -> None:
        for name in ("laptop", "desk", "bin"):
            (root / name).mkdir()
        self.laptop, self.desk = Office(root / "laptop"), Office(root / "desk")
        (root / "bin" / "ssh").write_text(SSH_SCRIPT)
        (root / "bin" / "ssh").chmod(0o700)
        self.path = f"{root / 'bin'}:{SCRIPT.parent}:{self.laptop.environment['PATH']}"

    def type(self, line: str) -> str:
        env = self.laptop.environment | {"PATH": self.path, "OTHER_HOME": str(self.desk.home)}
        done = subprocess.run(
            ["sh", "-c", line], env=env, cwd=self.laptop.cwd, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


def events(office: Office) -> dict[str, dict[str, Any]]:
    lines = office.run("export", "--project", "*").stdout.splitlines()
    return {line["event_id"]: line for line in map(json.loads, lines)}


def imported(office: Office, lines: list[dict[str, Any]]) -> dict[str, Any]:
    path = office.root / "lines.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return office.json("import", str(path), "--client", "jsonl")


@pytest.mark.slow
def test_two_machines_hold_the_same_after_a_pipe_each_way(machines: Machines) -> None:
    laptop, desk = machines.laptop, machines.desk
    laptop.json("demo")
    laptop.talk(laptop.checkout("work/shop", SSH), "one", "Please keep the wombat key in the green drawer.")
    desk.talk(desk.checkout("elsewhere/copy", HTTPS), "two", "Please paint the fence.")
    mine, theirs = events(laptop), events(desk)
    assert len([line for line in mine.values() if line["project"] != "shop"]) == 239
    assert {line["remote"] for line in theirs.values()} == {SHOP}

    assert f"{len(mine)} events new" in machines.type(THERE)
    assert f"{len(theirs)} events new, {len(mine)} known" in machines.type(BACK)
    assert events(laptop) == events(desk) == mine | theirs
    desk.json("process")
    laptop.json("process")
    assert laptop.projects() == desk.projects()
    assert laptop.projects()["shop"] == 2
    assert [desk.project(name)["sessions"] for name in ("tidepool-api", "tidepool-web")] == [8, 3]
    for line in (THERE, BACK):
        assert f" 0 events new, {len(mine | theirs)} known" in machines.type(line)
    assert "green drawer" in desk.at(desk.root / "elsewhere" / "copy", "search", "wombat key").stdout


@pytest.mark.slow
def test_a_project_may_be_called_differently_on_each_machine(machines: Machines) -> None:
    laptop, desk = machines.laptop, machines.desk
    laptop.talk(laptop.checkout("shop", SSH), "one", "Please keep the wombat key in the green drawer.")
    desk.talk(desk.checkout("copy", HTTPS), "two", "Please paint the fence.")
    desk.run("projects", "rename", "shop", "store")
    machines.type(THERE)
    machines.type(BACK)
    assert (laptop.projects(), desk.projects()) == ({"shop": 2}, {"store": 2})


def test_what_came_first_from_another_machine_is_joined_by_the_first_checkout(machines: Machines) -> None:
    laptop, desk = machines.laptop, machines.desk
    laptop.talk(laptop.checkout("shop", SSH), "one", "Please keep the wombat key in the green drawer.")
    machines.type(THERE)
    desk.json("process")
    assert desk.project("shop")["remote"] == SHOP
    place = desk.checkout("copy", HTTPS)
    assert "wombat" in desk.hook(place, "SessionStart", "two", source="startup")
    desk.talk(place, "two", "Please paint the fence.")
    assert desk.projects() == {"shop": 2}
    assert desk.project("shop")["path"] == str(place)


@pytest.mark.slow
def test_the_same_name_of_another_repository_stays_another_project(machines: Machines) -> None:
    laptop, desk = machines.laptop, machines.desk
    laptop.talk(laptop.checkout("shop", SSH), "one", "Please keep the wombat key in the green drawer.")
    desk.talk(desk.checkout("shop", FORK), "two", "Please paint the fence.")
    machines.type(THERE)
    desk.json("process")
    (other,) = (slug for slug in desk.projects() if slug != "shop")
    assert desk.projects() == {"shop": 1, other: 1}
    assert (desk.project("shop")["remote"], desk.project(other)["remote"]) == ("github.com/ada/shop", SHOP)
    assert " 0 events new" in machines.type(THERE)


def test_a_project_that_was_split_off_is_no_longer_told_by_the_remote(machines: Machines) -> None:
    laptop, desk = machines.laptop, machines.desk
    for name in ("first", "second"):
        laptop.talk(laptop.checkout(name, SSH), name, f"Please paint the {name} fence.")
    laptop.run("projects", "split", "shop")
    assert {line["project"]: line.get("remote") for line in events(laptop).values()} == {"shop": SHOP, "second": None}
    machines.type(THERE)
    assert desk.projects() == {"shop": 1, "second": 1}


def test_no_file_can_let_a_repository_read_another_project(machines: Machines) -> None:
    """A stranger's file may add events to a project, as it says; a stranger's repository never becomes one with it."""
    desk = machines.desk
    desk.talk(desk.checkout("atlas"), "one", "Please keep the wombat key in the green drawer.")
    desk.json("import", str(_named(desk, "named")), "--client", "jsonl")
    line = {"timestamp": "2026-03-02T09:00:00Z", "role": "user", "text": "Hello.", "remote": "github.com/evil/thing"}
    imported(desk, [{**line, "session_id": name, "project": name} for name in ("atlas", "named")])
    evil = desk.checkout("evil", "https://github.com/evil/thing")
    assert desk.hook(evil, "SessionStart", "two", source="startup") == ""
    desk.talk(evil, "two", "Please mow the lawn.")
    assert desk.projects() == {"atlas": 2, "named": 2, "thing": 1}


def _named(desk: Office, name: str) -> Path:
    path = desk.root / "named.jsonl"
    line = {"session_id": "n", "timestamp": "2026-03-02T08:00:00Z", "role": "user", "text": "The numbat hides."}
    path.write_text(json.dumps({**line, "project": name}) + "\n")
    return path


@pytest.mark.parametrize("remote", ["/srv/shop.git", "http://localhost/a", "../x", "[", "x" * 5_000, "a\nb", " "])
def test_a_remote_that_means_nothing_elsewhere_is_ignored_in_a_file(machines: Machines, remote: str) -> None:
    line = {"session_id": "s", "timestamp": "2026-03-02T09:00:00Z", "role": "user", "text": "Hello.", "project": "x"}
    assert imported(machines.desk, [{**line, "remote": remote}])["events_new"] == 1
    assert machines.desk.project("x")["remote"] is None


def test_a_remote_in_a_file_may_be_written_as_an_address_and_keeps_no_credentials(machines: Machines) -> None:
    line = {"session_id": "s", "timestamp": "2026-03-02T09:00:00Z", "role": "user", "text": "Hello.", "project": "x"}
    imported(machines.desk, [{**line, "remote": HTTPS}])
    assert machines.desk.project("x")["remote"] == SHOP
    kept = b"".join(path.read_bytes() for path in machines.desk.home.rglob("*") if path.is_file())
    assert b"hunter2" not in kept


def test_a_remote_that_is_no_text_is_a_bad_line(machines: Machines) -> None:
    line = {"session_id": "s", "timestamp": "2026-03-02T09:00:00Z", "role": "user", "text": "Hello.", "remote": 5}
    told = imported(machines.desk, [line])
    assert (told["events_new"], len(told["skipped"])) == (0, 1)
