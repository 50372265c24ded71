"""`models` as a user types it: a model is tried before it is set, nothing is set that does not answer, and back."""

from __future__ import annotations

import json
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.surfaces import output
from tests.models.scripted import KEY, Http, honest, scripted
from tests.surfaces.machine import Machine
from tests.surfaces.test_process_command import answer, history

_PROGRAM = """
import json, re, sys
said = re.findall(r"^\\[\\d+\\] (?:user|assistant): ([^\\n]{20,200})", sys.stdin.read(), re.M)
bullets = [{"text": f"It was said: {text[:80]}", "kind": "outcome", "quote": text} for text in said[:3]]
print("Sure:", json.dumps({"title": "What a program made of it", "bullets": bullets, "keywords": ["one", "two"]}))
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "model.py").write_text(_PROGRAM)
    return f"{sys.executable} {tmp_path / 'model.py'}"


def summarizer(machine: Machine) -> dict[str, Any]:
    path = machine.memory / "config.toml"
    return dict(tomllib.loads(path.read_text()).get("summarizer", {})) if path.exists() else {}


def refusal(machine: Machine, *args: str, env: dict[str, str] | None = None) -> str:
    before = machine.memory / "config.toml"
    held = before.read_bytes() if before.exists() else None
    done = machine.run("models", *args, env=env or {})
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("mcp-memory: ")
    assert (before.read_bytes() if before.exists() else None) == held
    return done.stderr


def test_a_program_is_tried_on_a_segment_of_the_user_and_then_set(machine: Machine, program: str) -> None:
    history(machine, "2026-03-02")
    answer(machine, "process")
    shape = answer(machine, "models", "use", "command", program, "--yes")
    assert shape["set"] is True
    assert shape["segment"].startswith("toc:segment:2026-03-02:")
    assert shape["before"]["written_by"] == "extractive"
    assert shape["after"]["written_by"] == f"command:{Path(sys.executable).stem}"
    assert shape["after"]["title"] == "What a program made of it"
    assert shape["took"]["calls"] == 1
    assert shape["took"]["input_tokens"] > 200
    assert shape["took"]["cost"] is None
    assert summarizer(machine)["command"] == program
    assert stat.S_IMODE((machine.memory / "config.toml").stat().st_mode) == 0o600
    answer(machine, "process")
    shown = answer(machine, "models")
    assert shown["kind"] == "command"
    assert shown["ready"] is True
    assert shown["written_by"][f"command:{Path(sys.executable).stem}"] >= 1
    assert 0 < shown["today"] < shown["cap"] == 200_000


def test_the_comparison_is_shown_to_people(machine: Machine, program: str) -> None:
    done = machine.run("models", "use", "command", program, "--model", "mine", "--yes")
    assert "Before (extractive)" in done.stdout
    assert "After (command:mine)" in done.stdout
    assert "What a program made of it" in done.stdout
    assert "tokens in" in done.stdout
    assert "sample history" in done.stdout  # there is nothing of the user's yet
    assert 'model = "mine"' in done.stdout


def test_what_is_set_keeps_comments_and_other_sections_and_off_goes_back(machine: Machine, program: str) -> None:
    own = '# mine\n[calendar]\ntimezone = "UTC" # kept\n\n[summarizer] # here\nprices = "x=1/5"\n\n# next\n[brief]\n'
    machine.memory.mkdir()
    (machine.memory / "config.toml").write_text(own)
    answer(machine, "models", "use", "command", program, "--yes")
    text = (machine.memory / "config.toml").read_text()
    assert all(line in text for line in own.splitlines() if line)
    assert summarizer(machine)["timeout_seconds"] == 300
    assert answer(machine, "models", "off") == {
        "kind": "extractive",
        "was": "command",
        "config": str(machine.memory / "config.toml"),
    }
    assert summarizer(machine) == {"prices": "x=1/5", "kind": "extractive", "command": program}
    assert answer(machine, "models", "show")["kind"] == "extractive"
    assert "extractive" in machine.run("models", "off").stdout


def test_ollama_is_asked_where_it_listens_without_a_key_and_without_thinking(machine: Machine) -> None:
    with scripted(honest) as model:
        use = ("models", "use", "ollama", "--model", "qwen3:8b", "--base-url", model.openai_url)
        shape = answer(machine, *use, "--yes", env={"OPENAI_API_KEY": KEY})
        request = model.asked[0]
    assert shape["after"]["written_by"] == "ollama:qwen3:8b"
    assert KEY not in request.headers["authorization"]
    assert request.body["reasoning_effort"] == "none"
    assert "max_tokens" in request.body
    assert summarizer(machine) == {
        "kind": "ollama",
        "model": "qwen3:8b",
        "base_url": model.openai_url,
        "daily_token_cap": 50_000_000,
        "timeout_seconds": 300,
        "concurrency": 1,
    }


@pytest.mark.slow
def test_what_suited_a_model_of_ones_own_is_not_left_to_a_paid_service(machine: Machine) -> None:
    with scripted(honest) as model:
        answer(machine, "models", "use", "ollama", "--model", "m", "--base-url", model.openai_url, "--yes")
        key = machine.home / "key"
        key.write_text(KEY)
        shape = answer(
            *(
                machine,
                "models",
                "use",
                "anthropic",
                "--base-url",
                model.anthropic_url,
                "--key-file",
                "../home/key",
                "--yes",
            )
        )
        assert KEY in model.asked[-1].headers["authorization"]
    assert shape["model"] == "claude-haiku-5-5"
    assert summarizer(machine) == {
        "kind": "anthropic",
        "base_url": model.anthropic_url,
        "api_key_file": f"{machine.project}/../home/key",
    }
    assert KEY not in (machine.memory / "config.toml").read_text()
    shown = answer(machine, "models", "show")
    assert shown["key"] == f"{machine.project}/../home/key"  # from wherever a server is started
    assert shown["cap"] == 200_000


def test_of_the_same_kind_what_is_not_named_stays(machine: Machine) -> None:
    with scripted(honest) as model:
        answer(machine, "models", "use", "ollama", "--model", "m", "--base-url", model.openai_url, "--yes")
        answer(machine, "models", "use", "ollama", "--model", "other", "--yes")
    assert (summarizer(machine)["model"], summarizer(machine)["base_url"]) == ("other", model.openai_url)


def test_an_answer_that_was_kept_does_not_stand_in_for_one_that_is_asked(machine: Machine) -> None:
    with scripted(honest) as model:
        use = ("use", "openai", "--model", "m", "--base-url", model.openai_url, "--yes")
        told = machine.run("models", *use, env={"OPENAI_API_KEY": KEY}).stdout
        assert "The key is in OPENAI_API_KEY" in told
        assert KEY not in told
        model.respond = lambda asked: Http(401)
        assert "refuses the key" in refusal(machine, *use)
        # What was refused is asked again once the user says so, and works.
        model.respond = honest
        assert machine.run("models", *use).returncode == 0


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("use",), "Say which"),
        (("use", "gpt"), "no kind of model 'gpt'"),
        (("use", "ollama", "qwen3:8b"), "named by --model"),
        (("use", "ollama"), "needs to know a model"),
        (("use", "command"), "needs to know a program"),
        (("use", "anthropic", "--yes"), "ANTHROPIC_API_KEY"),
        (("use", "openai", "--key-file", "/nowhere/key", "--yes"), "cannot be read"),
        (("use", "openai", "--model", "sk-0123456789abcdefghij", "--yes"), "looks like a key"),
        (("use", "openai", "--base-url", "ftp://x", "--yes"), "http or https"),
        (("use", "ollama", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--yes"), "ollama serve"),
        (("use", "command", "no-such-program -p", "--yes"), "no program 'no-such-program'"),
        (("use", "command", "'unbalanced", "--yes"), "must be a program"),
        (("use", "command", "true"), "--yes"),
        (("off", "now"), "takes nothing else"),
    ],
)
def test_what_does_not_answer_is_not_set_and_the_reason_is_told(
    machine: Machine, args: tuple[str, ...], told: str
) -> None:
    assert told in refusal(machine, *args)


def test_a_model_that_is_not_there_is_told_with_how_it_comes(machine: Machine) -> None:
    with scripted(lambda asked: Http(404)) as model:
        use = ("use", "ollama", "--model", "qwen3:8b", "--base-url", model.openai_url, "--yes")
        assert "ollama pull qwen3:8b" in refusal(machine, *use)
        assert "models use openai" in refusal(machine, "use", "none")


def test_a_variable_that_would_win_is_named(machine: Machine, program: str) -> None:
    env = {"MCP_MEMORY_SUMMARIZER_MODEL": "other"}
    assert "MCP_MEMORY_SUMMARIZER_MODEL" in refusal(machine, "use", "command", program, "--yes", env=env)
    cap = {"MCP_MEMORY_SUMMARIZER_DAILY_TOKEN_CAP": "90000"}
    assert answer(machine, "models", "use", "command", program, "--yes", env=cap)["set"]
    assert "daily_token_cap" not in summarizer(machine)  # it is the variable's
    kind = {"MCP_MEMORY_SUMMARIZER_KIND": "openai"}
    assert "MCP_MEMORY_SUMMARIZER_KIND" in refusal(machine, "off", env=kind)


def test_nothing_is_sent_and_nothing_is_set_unless_the_user_agrees(
    machine: Machine, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    replies = [False, True, False, True, True]

    def agreed(question: str) -> bool:
        asked.append(question)
        return replies.pop(0)

    monkeypatch.setattr(output, "agreed", agreed)
    assert "Nothing was changed" in refusal(machine, "use", "command", program)
    assert answer(machine, "models")["calls"] == 0
    assert "is sent to" in asked[0]
    assert program in asked[0]
    assert "Nothing was changed" in refusal(machine, "use", "command", program)
    assert answer(machine, "models")["calls"] == 1
    assert machine.run("models", "use", "command", program).returncode == 0
    assert summarizer(machine)["kind"] == "command"


def test_a_command_with_quotes_in_it_is_written_so_that_it_is_read_back(machine: Machine, program: str) -> None:
    python, path = program.split()
    words = [python, path, 'say "so"', "back\\slash"]
    assert machine.run("models", "--yes", "use", "command", "--", *words).returncode == 0
    assert summarizer(machine)["command"] == words
    assert json.loads(machine.run("models", "--json").stdout)["kind"] == "command"


def test_a_file_that_cannot_be_written_is_told(machine: Machine, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    assert machine.run("models").returncode == 0
    monkeypatch.setattr("mcp_memory.install.apply.os.replace", full)
    assert "No space left" in refusal(machine, "use", "command", program, "--yes")
