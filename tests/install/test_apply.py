"""Install and uninstall on real files: what is written, remembered, put back."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from mcp_memory.clients import installable
from mcp_memory.clients.port import PROJECT, USER, Folders
from mcp_memory.errors import MemoryFault, UsageError
from mcp_memory.install.apply import FileChange, InstallRecord, install, plan_install, plan_uninstall, uninstall
from mcp_memory.install.catalog import Launch, project_root
from tests.install.documents import EXACT, LAUNCH, MOVED, TOML

FOUR = pytest.mark.parametrize("client", list(installable()))


class Place:
    """A home directory, a project and a data directory, all empty."""

    def __init__(self, root: Path) -> None:
        self.home, self.project, self.data = root / "home", root / "project", root / "data"
        for folder in (self.home, self.project):
            folder.mkdir()

    def install(self, client: str, scope: str = USER, launch: Launch = LAUNCH) -> list[FileChange]:
        root = Folders(self.home if scope == USER else self.project)
        changes = plan_install(installable()[client], scope, root, launch, InstallRecord(self.data), now_ms=1)
        install(changes, InstallRecord(self.data))
        return changes

    def uninstall(self, client: str) -> list[FileChange]:
        roots = [(USER, Folders(self.home)), (PROJECT, Folders(self.project))]
        changes = plan_uninstall(installable()[client], roots, InstallRecord(self.data))
        uninstall(changes, InstallRecord(self.data))
        return changes

    def seed(self, client: str, scope: str = USER) -> dict[str, bytes]:
        root = Folders(self.home if scope == USER else self.project)
        for path in installable()[client].settings_files(scope, root):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"# mine\na = 1\n" if path.suffix == ".toml" else b'\xef\xbb\xbf{"a": "\\u00e9"}\r\n')
        return self.everything()

    def everything(self) -> dict[str, bytes]:
        """All files and directories of the user."""
        found = [path for base in (self.home, self.project) for path in base.rglob("*")]
        return {str(path): path.read_bytes() if path.is_file() else b"" for path in found}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@FOUR
def test_uninstall_leaves_no_file_or_directory_where_there_was_none(place: Place, client: str) -> None:
    assert {change.kind for change in place.install(client)} == {"created"}
    assert {change.kind for change in place.uninstall(client)} == {"removed"}
    assert place.everything() == {}
    assert list(place.data.iterdir()) == []


@FOUR
def test_uninstall_restores_every_byte(place: Place, client: str) -> None:
    before = place.seed(client)
    assert {change.kind for change in place.install(client)} == {"changed"}
    assert place.everything() != before
    assert {change.kind for change in place.uninstall(client)} == {"restored"}
    assert place.everything() == before


@FOUR
def test_installing_again_changes_nothing_and_is_still_undone(place: Place, client: str) -> None:
    before = place.seed(client)
    place.install(client)
    once = place.everything()
    assert {change.kind for change in place.install(client)} == {"unchanged"}
    assert place.everything() == once
    place.uninstall(client)
    assert place.everything() == before


@FOUR
def test_a_repaired_installation_is_undone_to_the_first_state(place: Place, client: str) -> None:
    before = place.seed(client)
    place.install(client, launch=LAUNCH)
    assert {change.kind for change in place.install(client, launch=MOVED)} == {"changed"}
    assert not any(b"/opt/" in data for data in place.everything().values())
    place.uninstall(client)
    assert place.everything() == before


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "marked"])
@pytest.mark.parametrize("end", ["", "\n", "# the end"])
@pytest.mark.parametrize("text", list(TOML.values()), ids=list(TOML))
def test_uninstall_restores_toml_however_it_is_written(place: Place, text: str, end: str, mark: bytes) -> None:
    path = place.home / ".codex/config.toml"
    path.parent.mkdir()
    path.write_bytes(mark + (text.rstrip("\r\n") + end if end != "\n" else text).encode())
    before = place.everything()
    place.install("codex", launch=LAUNCH)
    place.install("codex", launch=MOVED)
    place.uninstall("codex")
    assert place.everything() == before


@pytest.mark.parametrize("text", list(EXACT.values()), ids=list(EXACT))
def test_uninstall_restores_json_however_it_is_written(place: Place, text: str) -> None:
    path = place.home / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    place.install("gemini", launch=LAUNCH)
    place.install("gemini", launch=MOVED)
    place.uninstall("gemini")
    assert path.read_bytes() == text.encode()


def test_both_scopes_are_undone_together(place: Place) -> None:
    place.seed("claude-code", USER)
    before = place.seed("claude-code", PROJECT)
    place.install("claude-code", USER)
    place.install("claude-code", PROJECT)
    assert len(place.uninstall("claude-code")) == 4
    assert place.everything() == before


def test_a_file_edited_since_loses_exactly_our_entries(place: Place) -> None:
    place.install("claude-code")
    state = place.home / ".claude.json"
    settings = place.home / ".claude/settings.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "numStartups": 3}))
    settings.write_text("// my own words\n" + settings.read_text())
    place.uninstall("claude-code")
    assert json.loads(state.read_text()) == {"numStartups": 3}
    assert settings.read_text() == "// my own words\n{}\n"


def test_a_file_edited_before_a_repair_is_not_overwritten_by_the_old_backup(place: Place) -> None:
    place.seed("gemini")
    place.install("gemini", launch=LAUNCH)
    path = place.home / ".gemini/settings.json"
    path.write_bytes(path.read_bytes().replace(b'"a": "\\u00e9"', b'"a": "changed by the user"'))
    place.install("gemini", launch=MOVED)
    place.uninstall("gemini")
    assert path.read_bytes() == b'\xef\xbb\xbf{"a": "changed by the user"}\r\n'


def test_entries_made_by_hand_are_taken_out_too(place: Place) -> None:
    path = place.home / ".cursor/mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"memory": {"command": "mcp-memory", "args": ["serve"]}, "x": {}}}')
    assert [change.kind for change in place.uninstall("cursor")] == ["changed"]
    assert path.read_text() == '{"mcpServers": {"x": {}}}'


def test_entries_made_by_hand_do_not_come_back_with_uninstall(place: Place) -> None:
    path = place.home / ".cursor/mcp.json"
    path.parent.mkdir()
    entry = {"command": LAUNCH.server[0], "args": ["serve"], "env": {"MCP_MEMORY_HOME": LAUNCH.home}}
    path.write_text(json.dumps({"mcpServers": {"memory": entry, "x": {}}}))
    kinds = {change.path.name: change.kind for change in place.install("cursor")}
    assert kinds == {"hooks.json": "created", "mcp.json": "unchanged"}
    place.uninstall("cursor")
    assert json.loads(path.read_text()) == {"mcpServers": {"x": {}}}


def test_without_its_record_uninstall_still_finds_what_is_ours(place: Place) -> None:
    place.seed("codex")
    place.install("codex")
    (place.data / "registrations.json").unlink()
    place.uninstall("codex")
    assert (place.home / ".codex/config.toml").read_bytes() == b"# mine\na = 1\n"
    assert (place.home / ".codex/hooks.json").read_bytes() == b'\xef\xbb\xbf{"a": "\\u00e9"}\r\n'


def test_a_file_that_lost_our_entries_is_backed_up_anew(place: Place) -> None:
    place.seed("gemini")
    place.install("gemini")
    path = place.home / ".gemini/settings.json"
    path.write_text('{"b": 2}')
    place.install("gemini")
    place.uninstall("gemini")
    assert path.read_text() == '{"b": 2}'


@pytest.mark.parametrize("broken", [b'{"a": ', b"\xff\xfe", b"[]"])
def test_one_broken_file_stops_the_whole_installation(place: Place, broken: bytes) -> None:
    (place.home / ".claude.json").write_bytes(broken)
    before = place.everything()
    with pytest.raises(MemoryFault, match=r"\.claude\.json cannot be edited"):
        place.install("claude-code")
    assert place.everything() == before
    assert not place.data.exists()


def test_a_change_by_another_program_in_between_is_not_overwritten(place: Place) -> None:
    changes = plan_install(
        installable()["gemini"], USER, Folders(place.home), LAUNCH, InstallRecord(place.data), now_ms=1
    )
    path = place.home / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_text('{"new": true}')
    with pytest.raises(MemoryFault, match="changed by another program"):
        install(changes, InstallRecord(place.data))
    assert path.read_text() == '{"new": true}'
    place.install("gemini")
    place.uninstall("gemini")
    assert path.read_text() == '{"new": true}'


def test_links_and_modes_are_kept(place: Place) -> None:
    real = place.project / "claude-settings.json"
    real.write_text("{}")
    real.chmod(0o640)
    link = place.home / ".claude/settings.json"
    link.parent.mkdir()
    link.symlink_to(real)
    place.install("claude-code")
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert stat.S_IMODE((place.home / ".claude.json").stat().st_mode) == 0o600
    place.uninstall("claude-code")
    assert link.is_symlink()
    assert real.read_text() == "{}"


def test_backups_are_private(place: Place) -> None:
    place.seed("codex")
    place.install("codex")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in place.data.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert len(list((place.data / "backups").iterdir())) == 2


def test_a_directory_that_others_use_meanwhile_stays(place: Place) -> None:
    place.install("cursor")
    (place.home / ".cursor/notes").write_text("mine")
    place.uninstall("cursor")
    assert place.everything().keys() == {str(place.home / ".cursor"), str(place.home / ".cursor/notes")}


def test_codex_has_no_project_scope(place: Place) -> None:
    with pytest.raises(UsageError, match="--scope user"):
        place.install("codex", PROJECT)


def test_the_difference_is_shown_as_a_unified_diff(place: Place) -> None:
    (place.home / ".cursor").mkdir()
    (place.home / ".cursor/mcp.json").write_text('{"mcpServers": {}}')
    changes = plan_install(
        installable()["cursor"], USER, Folders(place.home), LAUNCH, InstallRecord(place.data), now_ms=1
    )
    created, changed = (change.diff() for change in changes)
    assert created.startswith("--- /dev/null\n+++ ")
    assert '\n-{"mcpServers": {}}\n\\ No newline at end of file\n+{"mcpServers": {"memory": ' in changed


def test_an_unreadable_record_says_what_to_do(place: Place) -> None:
    place.data.mkdir()
    (place.data / "registrations.json").write_text("{}")
    with pytest.raises(MemoryFault, match="Move it away"):
        InstallRecord(place.data)


def test_the_project_is_the_nearest_directory_with_git(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    (tmp_path / "a/b").mkdir(parents=True)
    assert project_root(tmp_path / "a/b") == tmp_path
    assert project_root(Path(os.sep)) == Path(os.sep)
