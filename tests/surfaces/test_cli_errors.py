"""What the command line says to wrong input: what is wrong, and what to type instead."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest

from tests.surfaces.shell import SCRIPT, Shell

#: An agent's calls, which mean nothing to someone who types commands.
TOOL = re.compile("toc_root|get_node|expand_grip|teleport|browse_time|build_context|session_context|_tokens")


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["node", "toc:day:2026-13-45"], 2, "not"),
        (["node", "nonsense"], 2, "toc:year:2024"),
        (["toc", "--topic=--"], 2, "'--' is not a value"),
        (["search", "login", "--limit=--", "--json"], 2, "'--' is not a value"),
        (["backup", "x" * 5000], 1, "…: File name too long"),
        (["node", "toc:day:1999-01-01", "--project", "alpha"], 1, "`mcp-memory toc`"),
        (["grip", "grip:x"], 2, "grip:1705330800000"),
        (["grip", "grip:1705330800000:01HN4QXKN6YWXVKZ3JMHP4BCDE"], 1, "`mcp-memory search`"),
        (["context", "--focus", "nothing"], 1, "`mcp-memory search QUERY`"),
        (["context", "--since", "yesterday"], 2, "`mcp-memory snapshot`"),
        (["session", "nobody"], 1, "`mcp-memory search`"),
        (["session", "\udcff"], 2, "UTF-8"),
        (["context", "--focus", "a\udcff"], 2, "UTF-8"),
        (["node", "toc:day:2026-03-02@nowhere"], 1, "`mcp-memory projects`"),
        (["timeline", "the day the music died"], 2, "last week"),
        (["search", "  ", "--project", "*"], 2, "no word"),
        (["search", "x", "--kind", "poem"], 2, "segment"),
        (["toc", "--project", "nowhere"], 1, "alpha"),
        (["import", "does-not-exist.jsonl"], 1, "does not exist"),
        (["remember", "   "], 2, "empty"),
        (["remember", "x", "--kind", "poem"], 2, "'note', 'decision', 'outcome', 'rule', 'open'"),
        (["search", "login", "--budget", "-5"], 2, "--budget must be"),
        (["toc", "--budget", "0", "--json"], 2, "--budget must be"),
        (["grip", "grip:1705330800000:01HN4QXKN6YWXVKZ3JMHP4BCDE", "--before", "-1", "--json"], 2, "from 0 to 1,000"),
        (["frobnicate"], 2, "invalid choice"),
        (["export", "--format", "markdown"], 2, "-o"),
    ],
)
def test_wrong_input_says_what_to_do_and_never_a_traceback(
    loaded: Shell, args: list[str], code: int, says: str
) -> None:
    done = loaded.run(*args)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not TOOL.search(done.stderr)


def test_errors_are_json_where_json_was_asked_for(loaded: Shell) -> None:
    done = loaded.run("node", "nonsense", "--json")
    assert done.returncode == 2
    assert "node id" in json.loads(done.stdout)["error"]


@pytest.mark.parametrize(
    "args", [("search",), ("search", "x", "--limit", "ten"), ("toc", "--depth", "hour"), ("frobnicate",), ()]
)
def test_wrong_usage_is_json_too_where_json_was_asked_for(loaded: Shell, args: tuple[str, ...]) -> None:
    done = loaded.run(*args, "--json")
    assert done.returncode == 2
    assert "--help" in json.loads(done.stdout)["error"]
    assert "usage:" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", ["toc", "status --json", "export"])
def test_output_that_cannot_be_written_is_told_in_one_line(loaded: Shell, command: str) -> None:
    done = subprocess.run(
        f"'{SCRIPT}' {command} >/dev/full", shell=True, env=loaded.environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("mcp-memory: ")
    assert "No space left" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unforeseen_error_is_one_line_and_json(shell: Shell) -> None:
    assert shell.run("status").returncode == 0
    (shell.home / "memory.db").unlink()
    (shell.home / "memory.db").mkdir()
    done = shell.run("status", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]
    assert "Traceback" not in done.stderr


def test_any_string_is_a_valid_query(loaded: Shell) -> None:
    for query in (
        '"',
        "*",
        "AND OR NOT",
        "a* NEAR(b)",
        "col:x",
        "🦜",
        "x" * 10_000,
        "'; DROP TABLE event; --",
        "日本語",
        "-",
    ):
        done = loaded.run("search", query, "--project", "*", "--json")
        assert done.returncode == 0, query
        assert isinstance(json.loads(done.stdout)["hits"], list)


def test_a_query_without_a_word_says_so_and_what_to_do(loaded: Shell) -> None:
    done = loaded.run("search", "🦜", "--project", "*")
    assert done.returncode == 0, done.stderr
    assert "no word to look for" in done.stdout
    assert "The latest days" in done.stdout


def test_a_bad_setting_names_file_key_and_what_is_allowed(shell: Shell) -> None:
    shell.home.mkdir()
    (shell.home / "config.toml").write_text("[segmentation]\nmax_tokens = 5\n")
    done = shell.run("status")
    assert done.returncode == 2
    assert "config.toml" in done.stderr
    assert "segmentation.max_tokens" in done.stderr
    assert "200" in done.stderr


def test_a_limit_that_allows_nothing_is_wrong_usage(loaded: Shell) -> None:
    done = loaded.run("search", "login", "--limit", "-3")
    assert done.returncode == 2
    assert "limit must be from 1 to 50" in done.stderr


def test_answers_lead_on_by_commands(loaded: Shell) -> None:
    for args in (
        ["toc", "--budget", "100"],
        ["toc", "--topic", "nosuchword", "--budget", "200"],
        ["node", "toc:week:2026-W10@alpha", "--budget", "100"],
        ["search", "login timeout", "--project", "alpha", "--budget", "2000"],
        ["search", "nosuchword", "--when", "2026-03-02"],
        ["search", "login", "--when", "2025"],
        ["timeline", "March 2026", "--project", "*", "--budget", "2000"],
        ["timeline", "1999"],
        ["context"],
        ["session", "s1"],
        ["grip", loaded.json("search", "login", "--project", "*")["hits"][0]["grip_id"], "--budget", "2000"],
    ):
        done = loaded.run(*args)
        assert done.returncode == 0, done.stderr
        assert "tokens · next: " in done.stdout, args
        assert not TOOL.search(done.stdout), done.stdout


@pytest.mark.parametrize(
    "args",
    [
        ["context", "--since", ""],
        ["context", "--query", " "],
        ["search", "login", "--when", ""],
        ["toc", "--project", ""],
        ["timeline", "today", "--topic", ""],
        ["forget", "--match", "", "--dry-run"],
        ["import", ""],
    ],
)
def test_an_empty_value_is_no_value(loaded: Shell, args: list[str]) -> None:
    """It is an unset variable of a shell; as if not given, it would mean all projects, all times, all of it."""
    done = loaded.run(*args)
    assert done.returncode == 2
    assert "it is empty" in done.stderr
    assert not done.stdout


def test_no_words_but_a_time_ask_for_all_of_it(loaded: Shell) -> None:
    assert "toc:segment:2026-03-02" in loaded.run("search", "", "--when", "2026-03-02").stdout


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize("args", [["context"], ["search", "login"], ["session", "s1"]])
def test_a_budget_too_small_for_anything_is_told(loaded: Shell, args: list[str], form: tuple[str, ...]) -> None:
    done = loaded.run(*args, "--budget", "1", *form)
    assert done.returncode == 0
    assert "--budget 1 is too small for a useful answer; give 100 or more" in done.stderr
    assert not loaded.run(*args, "--budget", "100", *form).stderr


def test_what_a_budget_leaves_out_is_found_by_the_cursor(loaded: Shell) -> None:
    query = ("search", "login timeout session ttl app", "--project", "*")
    everything = [hit["id"] for hit in loaded.json(*query)["hits"]]
    first = loaded.json(*query, "--budget", "70")
    shown = [hit["id"] for hit in first["hits"]]
    assert 0 < len(shown) < len(everything)
    then = loaded.json(*query, "--cursor", first["more"])
    assert [*shown, *(hit["id"] for hit in then["hits"])][: len(everything)] == everything


@pytest.mark.skipif(os.name != "posix", reason="named pipes of POSIX")
@pytest.mark.parametrize("command", [["backup"], ["export", "-o"]])
def test_nothing_is_written_over_the_memory_a_device_or_a_directory(loaded: Shell, command: list[str]) -> None:
    """As the user root one could: the new file would take their place."""
    database, before = loaded.home / "memory.db", (loaded.home / "memory.db").stat().st_ino
    (loaded.cwd / "link.db").unlink(missing_ok=True)
    (loaded.cwd / "link.db").hardlink_to(database)
    for target, says in ((str(database), "the memory itself"), ("link.db", "the memory itself"), (".", "directory")):
        done = loaded.run(*command, target)
        assert done.returncode == 2
        assert says in done.stderr
    pipe = loaded.cwd / f"pipe-{command[0]}"
    os.mkfifo(pipe)
    assert "a device or a pipe" in loaded.run(*command, str(pipe)).stderr
    assert pipe.is_fifo()
    assert database.stat().st_ino == before


def test_a_project_needs_a_name(loaded: Shell) -> None:
    done = loaded.run("projects", "rename", "alpha", "@")
    assert done.returncode == 2
    assert "no letter or digit" in done.stderr


@pytest.mark.parametrize(("closed", "code", "says"), [(">&-", 1, "is closed"), ("<&-", 0, ""), ("2>&-", 0, "")])
@pytest.mark.parametrize("command", ["status", "serve"])
def test_a_closed_stream_is_no_traceback(loaded: Shell, command: str, closed: str, code: int, says: str) -> None:
    line = f'exec "$0" {command} < /dev/null {closed}'
    done = subprocess.run(
        ["sh", "-c", line, SCRIPT], capture_output=True, env=loaded.environment, check=False, timeout=60
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (code, False)
    assert says.encode() in done.stderr


def full(shell: Shell, command: str, most_bytes: int) -> subprocess.CompletedProcess[bytes]:
    """The command where no file may become larger: a disk that fills up under it."""
    line = f'trap "" XFSZ; ulimit -f {most_bytes // 512}; exec "$0" {command}'
    arguments = ["sh", "-c", line, str(SCRIPT)]
    return subprocess.run(
        arguments, capture_output=True, cwd=shell.cwd, env=shell.environment, check=False, timeout=120
    )


def test_a_full_disk_is_told_in_a_line_and_leaves_nothing_half_written(loaded: Shell) -> None:
    said = {"session_id": "s", "timestamp": "2026-03-01T10:00:00Z", "role": "user"}
    lines = [json.dumps({**said, "text": f"{number} {'word ' * 200}"}) for number in range(3_000)]
    (loaded.cwd / "much.jsonl").write_text("\n".join(lines))
    size = (loaded.home / "memory.db").stat().st_size
    told = [full(loaded, "import much.jsonl --json", size + 300_000)]
    assert loaded.json("import", "much.jsonl")["events_new"] > 0
    told += [full(loaded, command, 100_000) for command in ("backup copy.db", "export -o copy.jsonl --project '*'")]
    assert [(done.returncode, done.stderr.count(b"\n"), b"cannot be written" in done.stderr) for done in told] == [
        (1, 1, True)
    ] * 3
    assert [path.name for path in loaded.cwd.iterdir() if "copy" in path.name] == []


def test_a_directory_that_is_not_there_is_made_for_files_and_named_for_a_file(loaded: Shell) -> None:
    assert loaded.run("export", "--format", "markdown", "--project", "*", "-o", "tree").returncode == 0
    assert list((loaded.cwd / "tree").rglob("*.md"))
    for command in (["backup", "nowhere/copy.db"], ["export", "-o", "nowhere/all.jsonl"]):
        done = loaded.run(*command)
        assert done.returncode == 2
        assert "There is no directory nowhere" in done.stderr
