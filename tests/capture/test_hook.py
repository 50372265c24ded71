"""The hook as clients meet it: a process that takes JSON on stdin, exits 0 and leaves a row in the inbox."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.capture.conftest import Machine

REPLAY = Path(__file__).parents[3] / "shared" / "real-client" / "replay"
SECRET = "sk-ant-" + "api03-" + "Ab3" * 20


def test_event_becomes_a_row_of_the_inbox(machine: Machine) -> None:
    machine.make_database()
    payload = machine.payload("UserPromptSubmit", prompt="Rename the gateway – naïvely. 你好")

    done = machine.hook(payload, "--client", "codex")

    (row,) = machine.rows()
    assert json.loads(row["payload"]) == payload
    assert (row["client"], row["root"], row["label"], row["state"]) == ("codex", str(machine.project.resolve()), "", 0)
    assert row["received_ms"] > 1_700_000_000_000
    assert (done.stdout, done.stderr, machine.spooled()) == (b"", b"", [])


@pytest.mark.parametrize("database", [True, False])
def test_secrets_never_reach_the_disk(machine: Machine, database: bool) -> None:
    if database:
        machine.make_database()
    response = {"stdout": f"key is {SECRET}\n", "env": {"DB_PASSWORD": "hunter2-in-a-field"}, SECRET: 1}
    machine.hook(
        machine.payload(
            "PostToolUse",
            tool_name="Bash",
            tool_input={"command": "login --password hunter2-on-a-line"},
            tool_response=[response, "a <private>whispered</private> word"],
        ),
        OPENAI_API_KEY=SECRET,
    )
    disk = machine.disk()
    assert b"[redacted:anthropic-key]" in disk
    assert b"[redacted:private]" in disk
    for secret in (SECRET.encode(), b"hunter2", b"whispered"):
        assert secret not in disk


def test_environment_is_not_stored(machine: Machine) -> None:
    machine.hook(machine.payload("Stop"), SOME_VARIABLE="zanzibarium")
    assert machine.payloads()
    assert b"zanzibarium" not in machine.disk()


@pytest.mark.parametrize(
    "garbage",
    [b"not json", b"[1, 2]", b'"text"', b'{"cut": ', b"\xff\xfe\x00\x81", b"null", b"[" * 100_000, b'{"a":' * 5000],
    ids=repr,
)
def test_input_that_is_no_object_is_kept_as_it_is(machine: Machine, garbage: bytes) -> None:
    done = machine.hook(garbage)
    (payload,) = machine.payloads()
    assert payload["unparsed"][:40] == garbage.decode("utf-8", "replace").replace("\0", "\ufffd")[:40]
    assert done.stdout == b""


@pytest.mark.parametrize("nothing", [b"", b"  \r\n\t", b"\xef\xbb\xbf"])
def test_empty_input_leaves_nothing(machine: Machine, nothing: bytes) -> None:
    machine.hook(nothing)
    assert not machine.home.exists()


def test_deeply_nested_object_is_kept_without_its_secrets(machine: Machine) -> None:
    depth = 900
    machine.hook(b'{"a":' * depth + json.dumps(SECRET).encode() + b"}" * depth)
    assert len(machine.payloads()) == 1
    assert SECRET.encode() not in machine.disk()


def test_byte_order_mark_and_carriage_returns_do_not_matter(machine: Machine) -> None:
    text = json.dumps(machine.payload("UserPromptSubmit", prompt="hi"), indent=1).replace("\n", "\r\n")
    machine.hook(b"\xef\xbb\xbf" + text.encode() + b"\r\n")
    (payload,) = machine.payloads()
    assert payload["prompt"] == "hi"


def test_lone_surrogates_and_nuls_become_replacement_characters(machine: Machine) -> None:
    machine.make_database()
    machine.hook(json.dumps(machine.payload("UserPromptSubmit", prompt="a\ud83db\x00c😀")).encode())
    (payload,) = machine.payloads()
    assert payload["prompt"] == "a\ufffdb\ufffdc😀"
    assert machine.spooled() == []


def test_long_text_is_clipped_in_the_middle(machine: Machine) -> None:
    machine.hook(machine.payload("PostToolUse", tool_name="Bash", tool_response={"stdout": "é" * 200_000}))
    stdout = machine.payloads()[0]["tool_response"]["stdout"]
    assert len(stdout.encode()) <= 65_536
    assert "bytes cut" in stdout
    assert stdout.startswith("é")
    assert stdout.endswith("é")


def test_secret_is_taken_out_before_a_cut_could_split_it(machine: Machine) -> None:
    text = "".join(f"{SECRET} {number}\n" for number in range(3000))
    machine.hook(machine.payload("UserPromptSubmit", prompt=text))
    assert b"Ab3" not in machine.disk()


HUGE = {
    "one string": lambda: json.dumps("the key of it\n" * 1_000_000).encode(),
    "many objects": lambda: b"[" + b'{"a": 1, "b": "x y"},' * 400_000 + b"1]",
    "nested": lambda: b"[" * 100_000 + b"]" * 100_000,
    "quotes": lambda: json.dumps('"' * 3_000_000).encode(),
    "cut off": lambda: b'"' + b"a b " * 2_000_000,
}


@pytest.mark.parametrize("kind", HUGE)
def test_a_huge_event_is_stored_with_its_session(machine: Machine, kind: str) -> None:
    start, _, end = json.dumps(machine.payload("PostToolUse", tool_name="Bash", tool_response=0)).rpartition("0")
    secret = f'"login --password {SECRET}", '.encode()
    machine.hook(
        start.encode().replace(b'"tool_response"', b'"asked": ' + secret + b'"tool_response"')
        + HUGE[kind]()
        + end.encode()
    )
    (payload,) = machine.payloads()
    assert (payload["hook_event_name"], payload["session_id"]) == ("PostToolUse", "s1")
    assert "tool_response" in payload
    assert len(machine.disk()) < 1_000_000
    assert SECRET.encode() not in machine.disk()


def test_an_event_from_a_directory_no_system_has_is_stored(machine: Machine) -> None:
    machine.hook({**machine.payload("PostToolUse", tool_name="Bash"), "cwd": "/a" * 50_000})
    (payload,) = machine.payloads()
    assert payload["session_id"] == "s1"
    assert len(machine.disk()) < 200_000


@pytest.mark.parametrize("by", ["environment", "file"])
def test_length_limit_can_be_set(machine: Machine, by: str) -> None:
    env = {"MCP_MEMORY_CAPTURE_MAX_EVENT_BYTES": "2000"} if by == "environment" else {}
    if by == "file":
        machine.home.mkdir()
        (machine.home / "config.toml").write_text(
            '[brief]\nenabled = false\n[capture]\nmax_event_bytes = 2_000 # "x"\n'
        )
    machine.hook(machine.payload("UserPromptSubmit", prompt="a" * 9000), **env)
    assert 1900 < len(machine.payloads()[0]["prompt"].encode()) <= 2000


def test_disabling_touches_nothing(machine: Machine) -> None:
    machine.hook(machine.payload("Stop"), MCP_MEMORY_DISABLE="1")
    machine.hook(machine.payload("Stop"), MCP_MEMORY_CAPTURE_ENABLED="false")
    assert not machine.home.exists()
    machine.hook(machine.payload("Stop"), MCP_MEMORY_DISABLE="0")
    assert len(machine.payloads()) == 1


def test_capture_can_be_switched_off_in_the_settings_file(machine: Machine) -> None:
    machine.home.mkdir()
    (machine.home / "config.toml").write_text("[capture]\nenabled = false\n")
    machine.hook(machine.payload("Stop"))
    assert machine.payloads() == []


def test_project_that_opted_out_is_not_captured_from_any_of_its_directories(machine: Machine) -> None:
    (machine.project / ".mcp-memory.toml").write_text("enabled = false  # private\n")
    below = machine.project / "src" / "deep"
    below.mkdir(parents=True)
    machine.hook(machine.payload("Stop"))
    machine.hook({**machine.payload("Stop"), "cwd": str(below)})
    assert not machine.home.exists()


def test_label_is_taken_from_the_project_and_the_environment_wins(machine: Machine) -> None:
    (machine.project / ".mcp-memory.toml").write_text('project = "atlas"\n')
    machine.hook(machine.payload("Stop"))
    machine.hook(machine.payload("Stop"), MCP_MEMORY_PROJECT="borealis")
    assert sorted(row["label"] for row in machine.spooled()) == ["atlas", "borealis"]


@pytest.mark.parametrize(
    "event",
    ["PreToolUse", "PostToolBatch", "MessageDisplay", "InstructionsLoaded", "PermissionRequest", "Notification"]
    + ["BeforeTool", "AfterModel", "beforeShellExecution"],
)
def test_events_that_say_nothing_are_not_stored(machine: Machine, event: str) -> None:
    machine.hook(machine.payload(event, tool_name="Bash", message="x"))
    assert not machine.home.exists()


OWN: list[dict[str, Any]] = [
    {"tool_name": "mcp__memory__teleport"},
    {"tool_name": "mcp__mcp-memory__get_node"},
    {"tool_name": "mcp__mcp_memory__get_node"},
    {"tool_name": "mcp__plugin_mcp-memory_memory__toc_root"},
    {"tool_name": "mcp__plugin_my_own_memory__toc_root"},
    {"tool_name": "recall", "mcp_server": {"name": "memory", "source": "user"}},
    {"tool_name": "recall", "mcp_server": {"name": "plugin:mcp-memory:memory"}},
    {"tool_name": "mcp_memory_teleport", "mcp_context": {"server_name": "memory"}, "hook_event_name": "AfterTool"},
    {"tool_name": "MCP:teleport", "cursor_version": "2.1", "hook_event_name": "postToolUse"},
    {"tool_name": "mcp__memory__get_node", "hook_event_name": "PostToolUseFailure", "error": "no such node"},
]


@pytest.mark.parametrize("fields", OWN, ids=lambda fields: str(fields["tool_name"]))
def test_answers_of_our_own_tools_are_not_stored(machine: Machine, fields: dict[str, Any]) -> None:
    machine.hook({**machine.payload("PostToolUse", tool_response="toc:day:2026-01-01"), **fields})
    assert not machine.home.exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_name": "mcp__memory_bank__read"},
        {"tool_name": "mcp__mem__recall", "mcp_server": {"name": "mem"}},
        {"tool_name": "mcp__plugin_memory_mem__recall", "mcp_server": {"name": "plugin:memory:mem"}},
        {"tool_name": "Bash", "mcp_server": "memory"},
    ],
)
def test_answers_of_other_tools_are_stored(machine: Machine, fields: dict[str, Any]) -> None:
    machine.hook({**machine.payload("PostToolUse", tool_response="x"), **fields})
    assert len(machine.payloads()) == 1


def test_brief_is_printed_at_the_start_of_a_session(machine: Machine) -> None:
    machine.make_database()
    machine.say("Last week: ‘naïve’ gateway 你好")
    done = machine.hook(machine.payload("SessionStart", source="startup"))
    assert done.stdout.isascii()
    assert json.loads(done.stdout) == {
        "hookSpecificOutput": {
            "hookEventName": "SessionStart",
            "additionalContext": "Last week: ‘naïve’ gateway 你好",
        }
    }
    assert machine.hook(machine.payload("UserPromptSubmit", prompt="x")).stdout == b""
    assert len(machine.rows()) == 2


@pytest.mark.parametrize("source", [{}, [], None, 1])
def test_brief_is_printed_whatever_a_client_calls_the_source(machine: Machine, source: object) -> None:
    machine.make_database()
    machine.say("Before.")
    done = machine.hook(machine.payload("SessionStart", source=source))
    assert (b"Before." in done.stdout, done.stderr) == (True, b"")


def test_cursor_is_told_by_its_payload_and_answered_in_its_own_way(machine: Machine) -> None:
    machine.make_database()
    machine.say("Before.")
    payload = {
        "hook_event_name": "sessionStart",
        "cursor_version": "2.1.0",
        "conversation_id": "c1",
        "workspace_roots": [str(machine.project)],
    }
    done = machine.hook(payload, "--client", "claude-code")
    assert json.loads(done.stdout) == {"additional_context": "Before."}
    assert [(row["client"], row["root"]) for row in machine.rows()] == [("cursor", str(machine.project.resolve()))]


@pytest.mark.parametrize(
    ("source", "session", "expected"),
    [
        ("compact", "s1", "The record."),
        ("resume", "s1", "The record."),
        ("startup", "s1", "The project."),
        ("compact", "s2", "The project."),
        ("compact", None, "The project."),
    ],
)
def test_a_session_that_goes_on_gets_its_own_record(
    machine: Machine, source: str, session: str | None, expected: str
) -> None:
    machine.make_database()
    machine.say("The project.")
    machine.say("The record.", "session:claude-code:s1")
    done = machine.hook(machine.payload("SessionStart", source=source) | {"session_id": session})
    assert json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] == expected


def test_without_a_brief_nothing_is_printed(machine: Machine) -> None:
    assert machine.hook(machine.payload("SessionStart")).stdout == b""
    machine.make_database()
    assert machine.hook(machine.payload("SessionStart")).stdout == b""


def test_unwritable_home_is_reported_on_stderr_only(machine: Machine) -> None:
    machine.home.write_text("a file is in the way")
    done = machine.hook(machine.payload("UserPromptSubmit", prompt=SECRET))
    assert done.stdout == b""
    assert done.stderr.startswith(b"mcp-memory: the event was not captured")
    assert len(done.stderr.splitlines()) == 1
    assert b"Ab3" not in done.stderr


def test_hooks_at_once_lose_nothing_and_double_nothing(machine: Machine) -> None:
    machine.make_database()
    running = []
    for number in range(24):
        hook = subprocess.Popen(
            machine.command(), stdin=subprocess.PIPE, env=machine.environment(), stdout=subprocess.DEVNULL
        )
        running.append((number, hook))
    for number, hook in running:
        assert hook.stdin is not None
        hook.stdin.write(json.dumps(machine.payload("UserPromptSubmit", prompt=str(number))).encode())
        hook.stdin.close()
    assert [hook.wait(timeout=60) for _, hook in running] == [0] * 24
    assert sorted(int(payload["prompt"]) for payload in machine.payloads()) == list(range(24))


def test_installed_copy_finds_the_package_around_it(machine: Machine, tmp_path: Path) -> None:
    repo = Path(__file__).parents[2]
    site = tmp_path / "site-packages"
    package = site / "mcp_memory"
    (package / "hooks").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "capture").symlink_to(repo / "mcp_memory" / "capture")
    copy = package / "hooks" / "capture.py"
    copy.write_bytes((repo / "hooks" / "capture.py").read_bytes())
    (site / "json.py").write_text("raise RuntimeError('not the standard library')")
    subprocess.run(
        [sys.executable, "-I", "-S", str(copy)],
        input=json.dumps(machine.payload("Stop")).encode(),
        env=machine.environment(),
        check=True,
        timeout=60,
    )
    assert len(machine.payloads()) == 1


@pytest.mark.slow
@pytest.mark.skipif(not REPLAY.is_dir(), reason="recorded hook input is not at hand")
def test_every_recorded_event_is_taken_without_a_sound(machine: Machine) -> None:
    machine.make_database()
    recorded = sorted(REPLAY.glob("*/*.json"))
    for path in recorded:
        done = machine.hook(path.read_bytes(), "--client", path.parent.name.removesuffix("-plugin"))
        assert (done.stdout, done.stderr) == (b"", b""), path
    names = [json.loads(path.read_bytes())["hook_event_name"] for path in recorded]
    kept = [payload["hook_event_name"] for payload in machine.payloads()]
    for name in ("UserPromptSubmit", "Stop", "SessionStart", "SessionEnd", "AfterAgent", "SubagentStop"):
        assert kept.count(name) == names.count(name) > 0
    assert "PreToolUse" not in kept
    assert b"zephyrium" not in b"".join(json.dumps(p).encode() for p in machine.payloads() if "tool_response" in p)
    assert machine.spooled() == []
