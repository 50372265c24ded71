"""Completion as shells ask for it: by the scripts that `completion` prints, in real shells."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mcp_memory.surfaces import cli
from mcp_memory.surfaces.completion_command import SHELLS, script_for
from tests.surfaces.shell import SCRIPT, Shell
from tests.surfaces.terminal import terminal

needs = {
    shell: pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")
    for shell in ("bash", "zsh", "fish")
}
#: A line that is typed up to its end, and what it may go on with, in a memory of the projects alpha and beta.
LINES = [
    ("mcp-memory tim", ["timeline"]),
    ("mcp-memory toc --dep", ["--depth"]),
    ("mcp-memory toc --depth w", ["week"]),
    ("mcp-memory search words --project b", ["beta"]),
    ("mcp-memory search words --project=b", ["beta"]),
    ("mcp-memory session s", ["s1", "s2"]),
    ("mcp-memory session s:s", ["s:s1", "s:s2"]),
    ("mcp-memory forget --session s2", ["s2"]),
    ("mcp-memory node toc:day:2026-03-0", ["toc:day:2026-03-02@alpha", "toc:day:2026-03-04@beta"]),
    ("mcp-memory node --project alpha toc:day:", ["toc:day:2026-03-02"]),
    ("mcp-memory timeline last", ["last week"]),
    ("mcp-memory install cod", ["codex"]),
    ("mcp-memory projects mer", ["merge"]),
    ("mcp-memory projects merge al", ["alpha"]),
    ("mcp-memory search wor", []),
    ("mcp-memory backup hist", ["history.jsonl"]),
]


def back(shell: Shell, *words: str) -> tuple[int, list[str]]:
    """What the program answers a shell."""
    done = shell.run("__complete", *words)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


@pytest.fixture(scope="module")
def scripts(loaded: Shell, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts as they are printed, and the program where shells find it."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        done = loaded.run("completion", shell)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{script_for(shell)}\n"
        (folder / shell).write_text(done.stdout)
    (folder / "bin").mkdir()
    (folder / "bin" / "mcp-memory").symlink_to(SCRIPT)
    return folder


def environment(loaded: Shell, scripts: Path) -> dict[str, str]:
    return loaded.environment | {"PATH": f"{scripts / 'bin'}:{loaded.environment['PATH']}", "HOME": str(scripts)}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_knows_every_command_and_option(shell: str) -> None:
    script = script_for(shell)
    for command in cli.COMMANDS:
        assert re.search(rf"\b{command.name}\b", script), command.name
    assert "until-idle" in script
    assert "__complete" in script


def test_help_does_not_list_the_call_back(loaded: Shell) -> None:
    assert "__complete" not in loaded.run("--help").stdout


def test_the_script_as_json_says_where_it_belongs(loaded: Shell) -> None:
    told = loaded.json("completion", "fish")
    assert told == {"shell": "fish", "file": "~/.config/fish/config.fish", "script": told["script"]}


@needs["bash"]
@pytest.mark.parametrize(("line", "expected"), LINES)
def test_bash_completes(loaded: Shell, scripts: Path, line: str, expected: list[str]) -> None:
    # Bash cuts words at colons and equals signs, and puts what a function replies after the last of them.
    words = [word for word in re.split(r" |([:=])", line) if word]
    if line.endswith(":"):
        words.append("")
    program = f"""
        source {scripts / "bash"}
        COMP_WORDS=({" ".join(words[:-1])} "{words[-1]}") COMP_CWORD={len(words) - 1}
        _mcp_memory mcp-memory
        ((${{#COMPREPLY[@]}})) && printf '%s\\n' "${{COMPREPLY[@]}}"
        complete -p mcp-memory >&2
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", program],
        cwd=loaded.cwd,
        env=environment(loaded, scripts),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "-F _mcp_memory" in done.stderr
    stem = line.rpartition(" ")[2].rpartition(":")[0]
    replied = [f"{stem}:{reply}" if stem else reply for reply in done.stdout.replace("\\ ", " ").splitlines()]
    assert sorted(replied) == expected


@needs["fish"]
@pytest.mark.parametrize(("line", "expected"), LINES)
def test_fish_completes(loaded: Shell, scripts: Path, line: str, expected: list[str]) -> None:
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {scripts / 'fish'}; complete -C {json.dumps(line)}"],
        cwd=loaded.cwd,
        env=environment(loaded, scripts),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    offered = [row.partition("\t")[0].removeprefix("--project=") for row in done.stdout.splitlines()]
    assert sorted(offered) == expected


#: What zsh is told at first: to show the line that was completed when Ctrl-T is pressed.
ZSH = """
PS1='> '; LISTMAX=1000; autoload -Uz compinit; compinit -D -u
show() { zle -M "[${(Q)BUFFER%% }]" }; zle -N show; bindkey '^T' show
source %s && print sour''ced
"""


@pytest.mark.slow
@needs["zsh"]
def test_zsh_completes(loaded: Shell, scripts: Path) -> None:
    with terminal(["zsh", "-f", "-i"], loaded.cwd, environment(loaded, scripts)) as screen:
        screen.type((ZSH % (scripts / "zsh")).replace("\n", "\r"))
        screen.shows("sourced")
        for line, expected in LINES:
            # Ctrl-U empties the line, Ctrl-L the screen. Ctrl-T shows the line in the place of a list.
            screen.type(f"\x15\x0c{line}\t{'' if len(expected) > 1 else chr(0x14)}")
            if len(expected) == 1:
                stem = line[: max(line.rfind(" "), line.rfind("=")) + 1]
                screen.shows(f"[{stem}{expected[0]}]")
            else:
                for value in expected or [f"[{line}]"]:
                    screen.shows(value)


def test_a_value_that_takes_a_file_is_left_to_the_shell(loaded: Shell) -> None:
    assert back(loaded, "import", "") == (1, [])


@pytest.mark.parametrize("words", [[], ["nonsense", ""], ["search", ""], ["toc", "--budget", ""], ["node", "\x1b[31m"]])
def test_where_nothing_is_known_nothing_is_said(loaded: Shell, words: list[str]) -> None:
    assert back(loaded, *words) == (0, [])


def test_a_memory_that_does_not_exist_is_not_made(shell: Shell) -> None:
    assert back(shell, "node", "") == (0, [])
    assert not shell.home.exists()


def test_a_damaged_memory_and_bad_settings_are_no_matter_of_a_line_that_is_typed(shell: Shell) -> None:
    shell.home.mkdir()
    (shell.home / "memory.db").write_bytes(b"no database" * 1000)
    assert back(shell, "session", "") == (0, [])
    (shell.home / "config.toml").write_text("[calendar\n")
    assert back(shell, "session", "") == (0, [])


def test_names_that_could_do_harm_in_a_shell_are_quoted_or_left_out(shell: Shell, tmp_path: Path) -> None:
    hostile = ["$(touch harm)", "`touch harm`", "; touch harm", "a\nb", "\x1b]0;harm\x07"]
    lines = [
        {"session_id": name, "timestamp": "2026-03-02T10:00:00Z", "role": "user", "text": "Hello.", "project": "alpha"}
        for name in hostile
    ]
    path = shell.cwd / "hostile.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    shell.json("import", str(path), "--client", "jsonl")
    code, offered = back(shell, "session", "")
    assert code == 0
    assert all(value.isprintable() for value in offered)
    if shutil.which("bash"):
        (tmp_path / "script").write_text(script_for("bash"))
        program = f"""
            source {tmp_path / "script"}
            COMP_WORDS=(mcp-memory session "") COMP_CWORD=2
            _mcp_memory {SCRIPT}
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        run = subprocess.run(
            ["bash", "--norc", "-c", program], cwd=shell.cwd, env=shell.environment, capture_output=True, text=True
        )
        assert not (shell.cwd / "harm").exists()
        assert "\\$\\(touch\\ harm\\)" in run.stdout
