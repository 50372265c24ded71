"""A repository is known by its remote, which is read from its config; and no config can make the hook fail or wait."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mcp_memory.capture.project import Project, detect
from mcp_memory.capture.remote import normalized, read_config, remote_of

SHOP = "github.com/acme/shop"
SECRET = "ghp_" + "Ab3xY7k" * 6


def git(directory: Path, *words: str) -> None:
    name = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main"]
    allowed = ["-c", "protocol.file.allow=always"]
    subprocess.run(["git", *name, *allowed, *words], cwd=directory, check=True, capture_output=True, timeout=60)


def repository(directory: Path, remote: str = "", name: str = "origin") -> Path:
    directory.mkdir(parents=True)
    git(directory, "init")
    git(directory, "commit", "--allow-empty", "-m", "first")
    if remote:
        git(directory, "remote", "add", name, remote)
    return directory.resolve()


def found(place: Path | str) -> Project:
    return detect(str(place), {})


def said(tmp_path: Path, text: str | bytes) -> str:
    config = tmp_path / "config"
    config.write_bytes(text.encode() if isinstance(text, str) else text)
    return remote_of(str(config))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("git@github.com:acme/shop.git", SHOP),
        ("github.com:acme/shop", SHOP),
        ("ssh://git@github.com/acme/shop.git", SHOP),
        ("ssh://git@github.com:22/acme/shop/", SHOP),
        ("git+ssh://git@github.com/acme/shop.git", SHOP),
        ("ssh://git@ssh.github.com:443/acme/shop.git", SHOP),
        ("https://github.com/acme/shop.git", SHOP),
        ("https://github.com:443/acme/shop.git//", SHOP),
        ("HTTPS://GitHub.COM/Acme/Shop", SHOP),
        ("http://www.github.com/acme/shop", SHOP),
        ("git://github.com/acme/shop.git", SHOP),
        ("git://github.com:9418/acme//shop/.git", SHOP),
        ("https://ada@github.com/acme/shop.git", SHOP),
        (f"https://ada:{SECRET}@github.com/acme/shop.git", SHOP),
        (f"https://{SECRET}:x-oauth-basic@github.com/acme/shop.git?token={SECRET}#{SECRET}", SHOP),
        ("  https://github.com./acme/shop  ", SHOP),
        ("ssh://git@git.example.org:2222/Acme/Shop.git", "git.example.org/Acme/Shop"),
        ("git@git.example.org:Acme/Shop.git", "git.example.org/Acme/Shop"),
        ("https://git.example.org:8443/Acme/Shop", "git.example.org:8443/Acme/Shop"),
        ("http://git.example.org:80/a", "git.example.org/a"),
        ("git@[2001:DB8::1]:acme/shop.git", "[2001:db8::1]/acme/shop"),
        ("ssh://git@[2001:db8::1]:22/acme/shop", "[2001:db8::1]/acme/shop"),
        ("https://gitlab.com/Acme/sub/group/Shop.git", "gitlab.com/acme/sub/group/shop"),
        ("ssh://git.example.org/~ada/shop", "git.example.org/~ada/shop"),
        ("https://git.example.org/shop.git.git", "git.example.org/shop.git"),
        ("work:acme/shop", "work/acme/shop"),
    ],
)
def test_one_repository_has_one_name_however_its_address_is_spelled(url: str, expected: str) -> None:
    assert normalized(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            " ",
            "/srv/git/shop.git",
            "./shop",
            "../shop.git",
            "~/shop",
            "shop",
            "shop.git",
            "C:\\git\\shop",
            "C:/shop",
        ),
        *("\\\\server\\share\\shop", "file:///srv/git/shop.git", "file://host/shop", "./a:b", "a/b:c"),
        *("http://localhost:3000/acme/shop", "http://127.0.0.1:41234/git/acme/shop", "ssh://git@[::1]/acme/shop"),
        *("ext::sh -c anything", "codecommit::eu-west-1://shop", "https://github.com", "https:///acme/shop", "ssh://"),
        *(
            "https://github.com/../shop",
            "https://git hub.com/shop",
            "https://github.com/a\nb",
            "https://github.com/a\0b",
        ),
        *("ssh://-oProxyCommand=x/shop", "https://host:port/shop", "https://[zz]/shop"),
        f"user:{SECRET}@host:acme/shop",
        f"https://ada:pa/{SECRET}@github.com/acme/shop",
        f"https://ada:12/{SECRET}@github.com/acme/shop",
        "https://github.com/" + "a" * 4_000,
        "[" * 2_000,
        "@" * 2_000,
        ":" * 2_000,
    ],
)
def test_what_means_nothing_on_another_machine_is_no_remote(url: str) -> None:
    assert normalized(url) == ""


def test_origin_counts_and_else_the_first(tmp_path: Path) -> None:
    both = '[remote "fork"]\n\turl = https://github.com/ada/shop\n[remote "origin"]\n\turl = https://github.com/acme/shop\n'
    assert said(tmp_path, both) == SHOP
    assert said(tmp_path, both.replace("origin", "upstream")) == "github.com/ada/shop"


def test_an_origin_on_this_machine_is_none_whatever_else_there_is(tmp_path: Path) -> None:
    text = '[remote "origin"]\nurl = /srv/shop.git\n[remote "other"]\nurl = https://github.com/acme/shop\n'
    assert said(tmp_path, text) == ""


@pytest.mark.parametrize(
    "text",
    [
        '[remote "origin"]\n\turl = https://github.com/acme/shop.git\n\turl = https://elsewhere.example/x\n',
        '[remote "origin"]\r\n\tURL=https://github.com/acme/shop.git\r\n',
        '[REMOTE "origin"] url = "https://github.com/acme/shop.git" ; the shop\n',
        "[remote.origin]\nurl = https://github.com/acme/shop.git # the shop\n",
        '[remote "origin"]\n\tpushurl = https://elsewhere.example/x\n\turl = https://github.com/acme/\\\nshop.git\n',
        '\ufeff[core]\n\tbare = false\n[remote "origin"]\nurl = "https://github.com/acme"/shop\n',
        '[remote "or\\igin"]\nurl = https://github.com/acme/shop\n',
        '[url "https://github.com/"]\n\tinsteadOf = gh:\n[remote "origin"]\n\turl = gh:acme/shop\n',
        '[url "x:"]\ninsteadof = g\n[url "git@github.com:"]\ninsteadof = gh:\n[remote "origin"]\nurl = gh:acme/shop\n',
    ],
)
def test_a_config_is_read_as_git_reads_it(tmp_path: Path, text: str) -> None:
    assert said(tmp_path, text) == SHOP


def test_a_short_form_of_the_user_s_own_config_is_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / ".gitconfig").write_text('[url "git@github.com:"]\n\tinsteadOf = "gh:"\n')
    assert said(tmp_path, '[remote "origin"]\nurl = gh:acme/shop\n') == SHOP


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\0" * 10_000,
        bytes(range(256)) * 400,
        b"[" * 100_000,
        b'[remote "' + b"\\" * 100_000,
        b'[remote "origin"]\nurl = "' + b'\\"' * 50_000,
        b'[remote "origin"]\nurl = ' + b"a" * 1_000_000,
        b'[remote "origin"]\nurl\n[remote "origin"]\n= x\n[remote ""]\nurl = https://github.com/a/b\n',
        b'[include]\npath = config\n[remote "origin"]\nurl =\n',
        b'[url "x"]\ninsteadOf =\n[remote "origin"]\nurl = \xff\xfe:y\n',
    ],
)
def test_no_config_makes_it_fail_or_wait(tmp_path: Path, text: bytes) -> None:
    before = time.perf_counter()
    assert said(tmp_path, text) == ""
    assert time.perf_counter() - before < 1


def test_a_huge_config_is_read_as_far_as_remotes_stand(tmp_path: Path) -> None:
    head = f'[remote "origin"]\nurl = https://{SHOP}\n'
    assert said(tmp_path, head + '[branch "b"]\nremote = origin\n' * 500_000) == SHOP


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and links are those of POSIX")
def test_a_config_that_is_no_file_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for place in ("pipe", "loop", "missing", ".", "nul\0", "x" * 5_000):
        assert read_config(os.path.join(tmp_path, place)) == ({}, [], "")
    assert read_config("/dev/zero") == ({}, [], "")


def test_clones_worktrees_and_moved_checkouts_have_one_remote(tmp_path: Path) -> None:
    first = repository(tmp_path / "first", "git@github.com:acme/shop.git")
    clone = repository(tmp_path / "clone", "https://github.com/Acme/Shop")
    (first / "src").mkdir()
    git(first, "worktree", "add", str(tmp_path / "tree"), "-b", "other")
    git(first, "worktree", "add", str(first / ".worktrees" / "near"), "-b", "near")
    first_places = (first / "src", tmp_path / "tree", first / ".worktrees" / "near" / "gone")
    assert {found(place)[::3] for place in first_places} == {(str(first), SHOP)}
    assert found(clone)[::3] == (str(clone), SHOP)
    clone.rename(tmp_path / "moved")
    assert found(tmp_path / "moved").remote == SHOP
    git(tmp_path, "clone", "--bare", str(first), "around/.bare")
    git(tmp_path / "around" / ".bare", "remote", "set-url", "origin", "https://github.com/acme/shop")
    git(tmp_path / "around" / ".bare", "worktree", "add", str(tmp_path / "around" / "tree"))
    assert found(tmp_path / "around" / "tree").remote == SHOP


def test_a_fork_is_another_and_a_clone_of_a_local_clone_has_none(tmp_path: Path) -> None:
    first = repository(tmp_path / "first", "https://github.com/acme/shop")
    assert found(repository(tmp_path / "fork", "https://github.com/ada/shop")).remote == "github.com/ada/shop"
    git(tmp_path, "clone", str(first), "copy")
    assert found(tmp_path / "copy").remote == ""
    assert found(repository(tmp_path / "alone")).remote == ""
    assert found(tmp_path).remote == ""


def test_a_submodule_has_the_remote_of_its_own(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner")
    outer = repository(tmp_path / "outer", "https://github.com/acme/shop")
    git(outer, "submodule", "add", str(inner), "sub")
    git(outer / "sub", "remote", "set-url", "origin", "https://github.com/acme/part")
    assert found(outer / "sub")[::3] == (str(outer / "sub"), "github.com/acme/part")


@pytest.mark.parametrize("led", ["to its directory", "to a worktree", "to a copy", "by a link"])
def test_a_git_file_that_leads_to_another_repository_gives_no_remote(tmp_path: Path, led: str) -> None:
    real = repository(tmp_path / "real", "https://github.com/acme/shop")
    git(real, "worktree", "add", str(tmp_path / "tree"), "-b", "other")
    forged = tmp_path / "forged"
    forged.mkdir()
    if led == "to its directory":
        (forged / ".git").write_text(f"gitdir: {real / '.git'}\n")
    elif led == "to a worktree":
        (forged / ".git").write_text((tmp_path / "tree" / ".git").read_text())
    elif led == "to a copy":
        (forged / "own").mkdir()
        (forged / "own" / "commondir").write_text(f"{real}/.git\n")
        (forged / "own" / "gitdir").write_text(f"{forged}/.git\n")
        (forged / ".git").write_text("gitdir: own\n")
    else:
        (forged / ".git").symlink_to(tmp_path / "tree" / ".git")
    assert found(forged)[::3] == (str(forged.resolve()), "")
    assert found(tmp_path / "tree").remote == SHOP


def test_no_credential_of_an_address_is_told(tmp_path: Path) -> None:
    place = repository(tmp_path / "shop", f"https://ada:{SECRET}@github.com/acme/shop.git")
    assert found(place).remote == SHOP
    git(place, "remote", "set-url", "origin", f"https://git.example.org/{SECRET}/shop.git")
    assert SECRET not in found(place).remote


def test_a_name_of_the_environment_is_all_that_counts(tmp_path: Path) -> None:
    place = repository(tmp_path / "shop", "https://github.com/acme/shop")
    assert detect(str(place), {"MCP_MEMORY_PROJECT": "mine"}) == Project("", "mine", True, "")
