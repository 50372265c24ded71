"""Adding a client touches one place: one row and its reader, and everything that deals with clients knows it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.clients import CLIENTS
from mcp_memory.clients.lines import TRANSCRIPT, HookCall, Origin, hook_readers, peek, read_hook, text_of
from mcp_memory.clients.port import PROJECT, USER, BadLine, Client, Reading, Setup, TranscriptState
from mcp_memory.domain.events import Captured, EventType
from tests.surfaces.machine import Machine, mend, problems, whats


class Abacus:
    """Reads what the toy client tells: one word a line, and a hook that gives the same."""

    def recognizes(self, path: Path) -> bool:
        return any("bead" in value for value in peek(path))

    def read(self, path: Path, state: TranscriptState) -> Iterator[Captured | BadLine]:
        for number, value in enumerate(peek(path)):
            origin = Origin("abacus", path.stem, 1_772_000_000_000 + number, TRANSCRIPT, "/home/ada/farm")
            yield origin.event(f"bead:{number}", EventType.USER_MESSAGE, text_of(value, "bead"))
        state.offset = path.stat().st_size

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Reading:
        return read_hook("abacus", payload, received_ms, hook_readers("", Counted=counted))


def counted(call: HookCall) -> Reading:
    return call.message(call.text("bead"), EventType.USER_MESSAGE, f"bead:{call.ms}")


TOY = Client(
    name="abacus",
    title="Abacus",
    reader=Abacus(),
    folder=".abacus/",
    variable="ABACUS_HOME",
    suffixes=(".beads",),
    places=(".abacus/rows",),
    setup=Setup(
        events=("Counted", "Stop"),
        hooks={USER: ".abacus/hooks.json", PROJECT: ".abacus/hooks.json"},
        servers={USER: ".abacus/settings.toml", PROJECT: ".abacus/settings.toml"},
        timeout=10,
        signs=(".abacus",),
        programs=("abacus",),
        hint="Abacus takes this up at once.",
    ),
)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setitem(CLIENTS, TOY.name, TOY)
    made = Machine(tmp_path)
    rows = made.home / ".abacus/rows"
    rows.mkdir(parents=True)
    (rows / "s1.beads").write_text('{"bead": "Seven crates of pears."}\n{"bead": "Eight crates of plums."}\n')
    return made


def texts(machine: Machine) -> list[str]:
    lines = machine.run("export", "--project", "*").stdout.splitlines()
    return [json.loads(line)["text"] for line in lines]


def fire(machine: Machine, **fields: Any) -> None:
    """Have the registered hook run, as the client does."""
    hooks = json.loads((machine.home / ".abacus/hooks.json").read_text())["hooks"]
    payload = {"session_id": "s2", "cwd": str(machine.project), **fields}
    command = hooks["Stop"][0]["hooks"][0]["command"]
    assert "--client abacus" in command
    subprocess.run(command, shell=True, input=json.dumps(payload).encode(), env=machine.env, check=True)


def test_its_history_is_imported_from_its_place_by_its_name_and_by_its_look(machine: Machine) -> None:
    assert machine.json("import")["events_new"] == 2
    assert texts(machine) == ["Seven crates of pears.", "Eight crates of plums."]
    assert machine.json("import", "--client", "abacus")["events_new"] == 0
    copied = machine.project / "copy.beads"
    copied.write_text('{"bead": "Nine crates of figs."}\n')
    assert machine.json("import", str(copied))["events_new"] == 1


def test_its_history_is_found_where_its_variable_says(machine: Machine, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    (machine.home / ".abacus").rename(moved)
    assert machine.json("import")["files"] == 0
    found = machine.run("import", "--json", env={"ABACUS_HOME": str(moved)})
    assert json.loads(found.stdout)["events_new"] == 2


def test_a_payload_of_its_hook_becomes_an_event(machine: Machine) -> None:
    machine.run("install", "abacus")
    fire(machine, hook_event_name="Counted", bead="Ten crates of quinces.")
    machine.run("process")
    assert texts(machine) == ["Ten crates of quinces."]


def test_it_is_installed_and_uninstalled_as_any_other(machine: Machine) -> None:
    settings = machine.home / ".abacus/settings.toml"
    settings.write_bytes(b"# mine\r\n[colours]\r\nred = { beads = 7 }")
    before = machine.files()
    assert machine.json("install", "abacus", "--dry-run")["client"] == "abacus"
    assert machine.files() == before
    assert "Abacus takes this up at once." in machine.run("install", "abacus").stdout
    assert set(json.loads((machine.home / ".abacus/hooks.json").read_text())["hooks"]) == {"Counted", "Stop"}
    assert b"[mcp_servers.memory]\r\n" in settings.read_bytes()
    assert machine.run("uninstall", "abacus").returncode == 0
    assert machine.files() == before


def test_doctor_examines_it(machine: Machine) -> None:
    assert problems(machine)[0]["fix"] == "mcp-memory install abacus"
    mend(machine)
    assert machine.json("doctor")["capture"] == "waiting"
    fire(machine, hook_event_name="Counted", bead="Ten crates of quinces.")
    machine.run("process")
    assert "abacus" in machine.json("doctor")["checked"]
    (machine.home / ".abacus/hooks.json").write_text("{}")
    assert whats(machine) == ["abacus: the hook is not registered"]


def test_the_commands_offer_it(machine: Machine) -> None:
    for command in ("import", "install", "uninstall"):
        assert "abacus" in machine.run(command, "--help").stdout, command
