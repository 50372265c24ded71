"""One repository is one project, wherever it is checked out; a fork is another; and what was joined can be parted."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.client import ask, connected
from tests.surfaces.desk import Desk

SHOP = "github.com/acme/shop"
SSH, HTTPS = "git@github.com:acme/shop.git", "https://ada:hunter2-secret@github.com/acme/shop"
FORK = "https://github.com/ada/shop"


def git(directory: Path, *words: str) -> None:
    name = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main"]
    allowed = ["-c", "protocol.file.allow=always"]
    subprocess.run(["git", *name, *allowed, *words], cwd=directory, check=True, capture_output=True, timeout=60)


class Office(Desk):
    """A desk with real repositories."""

    def checkout(self, name: str, remote: str = "") -> Path:
        place = (self.root / name).resolve()
        place.mkdir(parents=True)
        git(place, "init")
        git(place, "commit", "--allow-empty", "-m", "first")
        if remote:
            git(place, "remote", "add", "origin", remote)
        return place

    def project(self, slug: str) -> dict[str, Any]:
        return next(found for found in self.json("projects")["projects"] if found["slug"] == slug)

    def places(self, slug: str) -> dict[str, tuple[str | None, bool, str | None]]:
        told = self.project(slug)["places"]
        return {Path(each["path"]).name: (each["remote"], each["joined"], each["was"]) for each in told}


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


@pytest.fixture
def both(office: Office) -> Office:
    """Two clones of which each had a session."""
    office.talk(office.checkout("first/shop", SSH), "one", "Please keep the wombat key in the green drawer.")
    office.talk(office.checkout("second/copy", HTTPS), "two", "Please paint the fence.")
    return office


def test_clones_are_one_project_that_is_called_after_the_repository(both: Office) -> None:
    assert both.projects() == {"shop": 2}
    assert both.project("shop")["remote"] == SHOP
    assert both.places("shop") == {"shop": (SHOP, False, None), "copy": (SHOP, True, None)}
    told = both.run("projects").stdout
    assert f"known by its remote {SHOP}" in told
    assert "second/copy: joined by its remote" in told
    third = both.checkout("third", "ssh://git@github.com:22/Acme/Shop.git")
    assert "wombat" in both.hook(third, "SessionStart", "three", source="startup")
    assert "green drawer" in both.at(third, "search", "wombat key").stdout
    both.at(third, "remember", "The gate is open.")
    assert [project["slug"] for project in both.json("projects")["projects"]] == ["shop"]


def test_what_an_agent_is_handed_in_a_new_clone_is_of_the_project(both: Office) -> None:
    third = both.checkout("third", SSH)
    assert both.hook(third, "SessionStart", "three", source="startup")
    both.cwd = third
    row = both.json("recall", "list", "--project", "shop")["rows"][0]
    assert (row["kind"], row["session_id"], row["project"]) == ("brief", "three", "shop")


def test_no_credential_of_a_remote_is_kept(both: Office) -> None:
    both.hook(both.root / "second" / "copy", "SessionStart", "three", source="startup")
    kept = b"".join(path.read_bytes() for path in both.home.rglob("*") if path.is_file())
    assert b"acme/shop" in kept
    assert b"hunter2" not in kept


def test_a_worktree_and_a_moved_checkout_belong_to_their_project(both: Office) -> None:
    first = both.root / "first" / "shop"
    git(first, "worktree", "add", str(both.root / "tree"), "-b", "other")
    both.talk(both.root / "tree", "three", "Please mow the lawn.")
    (both.root / "second" / "copy").rename(both.root / "moved")
    both.talk(both.root / "moved", "four", "Please feed the cat.")
    assert both.projects() == {"shop": 4}


def test_forks_stay_apart_and_so_does_what_has_no_remote_or_a_local_one(both: Office) -> None:
    both.talk(both.checkout("fork/shop", FORK), "three", "Please mow the lawn.")
    git(both.root, "clone", str(both.root / "first" / "shop"), "local")
    both.talk(both.root / "local", "four", "Please feed the cat.")
    both.talk(both.checkout("alone"), "five", "Please water the roses.")
    found = both.projects()
    (fork,) = (slug for slug in found if slug.startswith("shop-"))
    assert found == {"shop": 2, fork: 1, "local": 1, "alone": 1}
    assert both.project(fork)["remote"] == "github.com/ada/shop"
    assert both.project("local")["remote"] is None
    assert "wombat" not in both.hook(both.root / "fork" / "shop", "SessionStart", "six", source="startup")


def test_projects_that_were_stored_by_path_are_joined_when_their_remote_is_first_seen(office: Office) -> None:
    places = [office.checkout(name) for name in ("atlas", "globe")]
    for place, words in zip(places, ("keep the wombat key", "paint the fence"), strict=True):
        office.talk(place, place.name, f"Please {words}.")
    assert office.projects() == {"atlas": 1, "globe": 1}
    git(places[0], "remote", "add", "origin", SSH)
    office.talk(places[0], "three", "Please mow the lawn.")
    assert (office.projects(), office.project("atlas")["remote"]) == ({"atlas": 2, "globe": 1}, SHOP)
    git(places[1], "remote", "add", "origin", HTTPS)
    office.talk(places[1], "globe", "Please go on.")  # a session that goes on
    assert office.projects() == {"atlas": 3}
    assert office.places("atlas") == {"atlas": (SHOP, False, None), "globe": (SHOP, True, "globe")}
    assert "it was globe until then" in office.run("projects").stdout
    assert "fence" in office.at(places[0], "search", "fence").stdout
    assert "fence" in office.hook(places[0], "SessionStart", "four", source="startup")


@pytest.mark.slow
def test_another_repository_in_the_same_place_is_another_project(both: Office) -> None:
    place = both.root / "first" / "shop"
    git(place, "remote", "set-url", "origin", FORK)
    both.talk(place, "three", "Please mow the lawn.")
    found = both.projects()
    (fork,) = (slug for slug in found if slug != "shop")
    assert found == {"shop": 2, fork: 1}
    assert (both.project(fork)["path"], both.project(fork)["remote"]) == (str(place), "github.com/ada/shop")
    assert both.project("shop")["path"] == str(both.root / "second" / "copy")
    assert "wombat" not in both.hook(place, "SessionStart", "four", source="startup")
    assert "green drawer" not in both.at(place, "search", "wombat key").stdout
    git(place, "remote", "set-url", "origin", SSH)
    both.talk(place, "five", "Please feed the cat.")
    assert both.projects() == {"shop": 3, fork: 2}
    both.at(place, "projects", "merge", fork, "shop")
    both.talk(both.checkout("other", FORK), "six", "Please water the roses.")
    assert both.projects() == {"shop": 6}


def test_a_place_whose_remote_changed_is_not_answered_from_its_former_project(both: Office) -> None:
    place = both.root / "first" / "shop"
    git(place, "remote", "set-url", "origin", FORK)
    assert both.hook(place, "SessionStart", "three", source="startup") == ""
    told = both.at(place).stdout
    assert f"Nothing is remembered of {place}" in told


@pytest.mark.slow
def test_what_a_remote_joined_is_parted_by_split_and_stays_so(office: Office) -> None:
    places = [office.checkout(name) for name in ("atlas", "globe")]
    for place, words in zip(places, ("keep the wombat key", "paint the fence"), strict=True):
        office.talk(place, place.name, f"Please {words}.")
        git(place, "remote", "add", "origin", SSH)
        office.talk(place, f"{place.name} again", "Please mow the lawn.")
    office.talk(office.checkout("third", SSH), "third", "Please feed the cat.")
    assert office.projects() == {"atlas": 5}

    told = office.json("projects", "split", "atlas")
    assert {Path(each["path"]).name: each["slug"] for each in told["places"]} == {"globe": "globe", "third": "third"}
    assert office.projects() == {"atlas": 2, "globe": 2, "third": 1}
    assert "fence" in office.at(places[1], "search", "fence").stdout
    assert "fence" not in office.at(places[0], "toc").stdout
    assert "wombat" in office.at(places[0], "toc").stdout
    assert office.json("status")["backlog"] == {"sessions": 0, "segments": 0, "periods": 0}
    brief = office.hook(places[1], "SessionStart", "later", source="startup")
    assert "fence" in brief
    assert "wombat" not in brief

    office.talk(places[1], "later", "Please water the roses.")
    office.talk(office.checkout("fourth", HTTPS), "fourth", "Please sweep the yard.")
    assert office.projects() == {"atlas": 3, "globe": 3, "third": 1}
    assert office.project("globe")["remote"] is None
    assert "Nothing was joined" in office.run("projects", "split", "globe").stderr
    office.run("projects", "merge", "globe", "atlas")
    office.talk(places[1], "last", "Please ring the bell.")
    assert office.projects() == {"atlas": 7, "third": 1}


def test_one_place_can_be_split_off_also_where_it_was_merged_by_hand(both: Office) -> None:
    alone = both.checkout("alone")
    both.talk(alone, "three", "Please water the roses.")
    both.run("projects", "merge", "alone", "shop")
    assert both.projects() == {"shop": 3}
    both.cwd = both.root
    assert both.json("projects", "split", "shop", "alone")["places"] == [{"path": str(alone), "slug": "alone"}]
    assert both.projects() == {"shop": 2, "alone": 1}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "takes a slug"),
        (("nowhere",), "There is no project 'nowhere'"),
        (("shop", "/nowhere"), "shop has no place /nowhere"),
        (("shop", "first/shop"), "is where shop itself is"),
    ],
)
def test_split_says_what_it_cannot_part(both: Office, words: tuple[str, ...], told: str) -> None:
    both.cwd = both.root
    done = both.run("projects", "split", *words)
    assert told in done.stderr
    assert done.returncode in (1, 2)
    assert both.projects() == {"shop": 2}


def test_a_name_that_a_repository_brings_along_is_that_of_all_its_clones(office: Office) -> None:
    for number, remote in enumerate((SSH, HTTPS)):
        place = office.checkout(f"place{number}", remote)
        (place / ".mcp-memory.toml").write_text('project = "atlas"\n')
        office.talk(place, f"s{number}", f"Please paint fence {number}.")
    assert office.projects() == {"atlas": 2}
    assert "does not count" not in office.at(place, "doctor").stdout


def test_a_claimed_name_of_another_project_still_needs_consent(both: Office) -> None:
    place = both.checkout("evil", "https://github.com/evil/thing")
    (place / ".mcp-memory.toml").write_text('project = "shop"\n')
    assert both.hook(place, "SessionStart", "three", source="startup") == ""
    both.talk(place, "three", "Please mow the lawn.")
    assert both.projects() == {"shop": 2, "thing": 1}
    assert both.at(place, "projects", "trust", "shop").returncode == 0
    both.talk(place, "four", "Please feed the cat.")
    assert both.projects() == {"shop": 3, "thing": 1}
    assert both.project("shop")["remotes"] == [SHOP]


def test_a_name_in_the_environment_counts_before_any_remote(both: Office) -> None:
    both.environment["MCP_MEMORY_PROJECT"] = "mine"
    both.talk(both.root / "first" / "shop", "three", "Please mow the lawn.")
    assert both.projects() == {"shop": 2, "mine": 1}


def test_an_earlier_hook_that_tells_no_remote_is_understood(both: Office) -> None:
    fresh = both.checkout("third", SSH)
    for number, place in enumerate((both.root / "second" / "copy", fresh)):
        payload = {"hook_event_name": "UserPromptSubmit", "session_id": f"old{number}", "prompt": "Mow the lawn."}
        row = {"received_ms": 1_790_000_000_000, "client": "claude-code", "root": str(place), "label": ""}
        name = both.home / "spool" / f"179000000000{number}-1-a.json"
        name.write_text(json.dumps({**row, "payload": json.dumps(payload)}))
    both.json("process")
    assert both.projects() == {"shop": 3, "third": 1}
    both.talk(fresh, "new", "Please feed the cat.")
    assert both.projects() == {"shop": 5}


def test_transcripts_come_to_the_project_of_the_repository_they_were_written_in(both: Office) -> None:
    third = both.checkout("third", SSH)
    history = both.root / "history" / "s.jsonl"
    history.parent.mkdir()
    lines = [
        {"type": "user", "sessionId": "old", "uuid": f"u{number}", "timestamp": "2026-03-02T09:00:00Z", "cwd": str(cwd)}
        | {"message": {"role": "user", "content": f"Please mow lawn {number}."}}
        for number, cwd in enumerate((third, third / "src"))
    ]
    history.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert both.json("import", str(history), "--client", "claude-code")["events_new"] == 2
    assert both.projects() == {"shop": 3}


def test_to_forget_a_project_takes_what_is_known_of_its_places(both: Office) -> None:
    both.hook(both.checkout("third", HTTPS), "UserPromptSubmit", "three", prompt="Please mow the lawn.")
    assert both.json("forget", "--project", "shop", "--dry-run")["inbox"] == 1
    both.json("forget", "--project", "shop", "--yes")
    assert both.projects() == {}
    kept = b"".join(path.read_bytes() for path in both.home.glob("memory.db*"))
    assert b"acme/shop" not in kept
    assert b"second/copy" not in kept


@pytest.mark.anyio
async def test_a_server_in_a_new_clone_answers_from_the_project(both: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    third = both.checkout("third", SSH)
    monkeypatch.chdir(third)
    async with connected(both.settings()) as client:
        assert "green drawer" in await ask(client, "teleport", query="wombat key drawer")
