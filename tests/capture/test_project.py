from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mcp_memory.capture.project import Project, detect, places


def git(directory: Path, *words: str) -> None:
    name = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *name, *words], cwd=directory, check=True, capture_output=True, timeout=60)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    directory = (tmp_path / "repo").resolve()
    (directory / "src" / "deep").mkdir(parents=True)
    git(directory, "init")
    git(directory, "commit", "--allow-empty", "-m", "first")
    return directory


def root(path: Path | str) -> str:
    return detect(str(path), {}).root


def test_subdirectory_belongs_to_its_repository(repo: Path) -> None:
    assert root(repo / "src" / "deep") == root(repo) == str(repo)


def test_worktree_belongs_to_its_repository(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", str(tmp_path / "elsewhere"), "-b", "other")
    (tmp_path / "elsewhere" / "sub").mkdir()
    assert root(tmp_path / "elsewhere" / "sub") == str(repo)


def test_worktree_of_a_bare_repository_belongs_to_the_directory_around_it(repo: Path, tmp_path: Path) -> None:
    around = (tmp_path / "around").resolve()
    around.mkdir()
    git(around, "clone", "--bare", str(repo), ".bare")
    git(around / ".bare", "worktree", "add", str(around / "main"))
    assert root(around / "main") == str(around)


@pytest.mark.parametrize("led", ["to a copy", "to a worktree of it", "by a link"])
def test_a_directory_cannot_pass_for_a_worktree_of_a_repository_that_does_not_know_it(
    repo: Path, tmp_path: Path, led: str
) -> None:
    real, forged = tmp_path / "elsewhere", (tmp_path / "forged").resolve()
    git(repo, "worktree", "add", str(real), "-b", "other")
    forged.mkdir()
    if led == "to a copy":
        (forged / "own").mkdir()
        (forged / "own" / "commondir").write_text(f"{repo}/.git\n")
        (forged / "own" / "gitdir").write_text(f"{forged}/.git\n")
        (forged / ".git").write_text("gitdir: own\n")
    elif led == "to a worktree of it":
        (forged / ".git").write_text((real / ".git").read_text())
    else:
        (forged / ".git").symlink_to(real / ".git")
    assert root(forged) == str(forged)
    assert root(real) == str(repo)


def test_a_worktree_with_relative_links_belongs_to_its_repository(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", str(tmp_path / "near"), "-b", "other")
    own = repo / ".git" / "worktrees" / "near"
    (tmp_path / "near" / ".git").write_text("gitdir: ../repo/.git/worktrees/near\n")
    (own / "gitdir").write_text("../../../../near/.git\n")
    assert root(tmp_path / "near") == str(repo)


def test_submodule_is_a_project_of_its_own(repo: Path, tmp_path: Path) -> None:
    outer = (tmp_path / "outer").resolve()
    outer.mkdir()
    git(outer, "init")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", str(repo), "inner")
    assert root(outer / "inner") == str(outer / "inner")


def test_link_leads_to_where_it_points(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(repo)
    assert root(tmp_path / "link" / "src") == str(repo)


def test_without_git_the_directory_is_the_project(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert root(tmp_path / "a" / "b") == str((tmp_path / "a" / "b").resolve())
    (tmp_path / "a" / ".mcp-memory.toml").write_text('project = "a"')
    assert root(tmp_path / "a" / "b") == str((tmp_path / "a").resolve())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/ada/gone/app", "/home/ada/gone/app"),
        ("/home/ada/gone/app/", "/home/ada/gone/app"),
        ("/home/ada/gone/app/.worktrees/fix-1/src", "/home/ada/gone/app"),
        ("/home/ada/gone/app/.claude/worktrees/fix", "/home/ada/gone/app"),
        ("/home/ada/gone/app/.claude/commands", "/home/ada/gone/app/.claude/commands"),
        ("C:\\Users\\ada\\app", "C:\\Users\\ada\\app"),
        ("C:\\Users\\ada\\app\\", "C:\\Users\\ada\\app"),
        ("C:\\Users\\ada\\app\\.worktrees\\fix", "C:\\Users\\ada\\app"),
        ("C:\\", "C:\\"),
        ("", ""),
        ("a\0b", "a\0b"),
        pytest.param("/a" * 2_048, "/a" * 2_048, id="the longest"),
        pytest.param("/a" * 2_049, "", id="too long for a path"),
    ],
)
def test_directory_of_another_machine_is_taken_as_text(path: str, expected: str) -> None:
    assert root(path) == expected


def test_directory_that_is_gone_belongs_to_the_repository_it_was_in(repo: Path) -> None:
    assert root(repo / "removed" / "since") == str(repo)


def test_label_and_opting_out_are_read_from_the_root(repo: Path) -> None:
    (repo / ".mcp-memory.toml").write_text('# ours\nproject = "atlas" # name\nenabled = false\n')
    assert detect(str(repo / "src"), {}) == Project(str(repo), "atlas", False, "")
    assert detect(str(repo), {"MCP_MEMORY_PROJECT": "other"}) == Project("", "other", False, "")


def test_no_claim_is_mistaken_for_another() -> None:
    pairs = [("/c", "a:/b"), ("/b:/c", "a"), ("", "a"), ("/c", ""), ("a", "/c"), ("/b", "a\n/c")]
    first = [places(root, label)[0] for root, label in pairs]
    assert len(set(first)) == len(pairs)


def test_enabled_by_default_and_with_an_unreadable_file_that_says_nothing_of_it(repo: Path) -> None:
    assert detect(str(repo), {}) == Project(str(repo), "", True, "")
    (repo / ".mcp-memory.toml").write_bytes(b"\xff\xfe[[[ = \n project")
    assert detect(str(repo), {}).enabled
    (repo / ".mcp-memory.toml").write_bytes(b"\xff\xfe[[[ = \n enabled")
    assert not detect(str(repo), {}).enabled


def test_a_secret_in_a_directory_s_name_does_not_become_the_project_s() -> None:
    key = "ghp_" + "Ab3xY7k" * 6
    assert root(f"/home/dev/{key}/app") == "/home/dev/[redacted:github-token]/app"
