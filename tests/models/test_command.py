"""A program as the model, by real small programs: what it prints is understood, and nothing of it stays behind."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import open_app
from mcp_memory.capture.project import OWN_QUESTIONS, detect
from mcp_memory.config import Settings, SummarizerSettings
from mcp_memory.errors import CapReached, InvalidOutput, ModelTimeout, ModelUnusable, SummarizerError, TransportFailed
from mcp_memory.models import providers
from mcp_memory.models.caller import model_problems
from mcp_memory.models.providers import find_program
from tests.models.asking import Asking, asking, question
from tests.models.scripted import honest

pytestmark = pytest.mark.anyio
ANSWER = {
    "title": "The login timeout was raised to an hour",
    "bullets": [{"text": "SESSION_TTL is 3600 now.", "kind": "outcome", "quote": "SESSION_TTL"}],
    "keywords": ["login", "timeout", "session"],
}
Program = Callable[..., AbstractAsyncContextManager[Asking]]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A caller whose model is a Python program of these lines; `answer` in them is a good answer as JSON."""

    def start(*lines: str, **more: Any) -> AbstractAsyncContextManager[Asking]:
        path = tmp_path / "model.py"
        path.write_text("\n".join([f"answer = {json.dumps(ANSWER)!r}", *lines]), "utf-8")
        command = (sys.executable, str(path), "--model", "small one")
        return asking(tmp_path, "command", honest, models=("model",), command=command, **more)

    return start


@pytest.mark.parametrize(
    "printed",
    [
        "print(answer)",
        r"print('Sure, here it is:\n```json\n' + answer + '\n```\nAnything else?')",
        r"print('\x1b[32m' + answer + '\x1b[0m')",
        "import json; print(json.dumps({'type': 'result', 'is_error': False, 'result': answer}))",
        r"print(asked + '\nAnswer: ' + answer)",
    ],
    ids=["bare", "fenced in prose", "coloured", "in an envelope", "after an echo of the prompt"],
)
async def test_what_a_program_prints_is_understood(program: Program, printed: str) -> None:
    async with program("import sys; asked = sys.stdin.read()", printed) as at:
        answer, written_by = await at.caller.ask(question(), "toc:day:2026-01-05")
        (row,) = await at.rows()
    assert answer.title == ANSWER["title"]
    assert written_by == "command:model"
    assert row["outcome"] == "ok"
    assert row["input_tokens"] > 100
    assert row["output_tokens"] > 10


async def test_a_program_gets_the_prompt_and_its_arguments_in_an_empty_place_that_is_not_remembered(
    program: Program, tmp_path: Path
) -> None:
    lines = (
        "import json, os, sys",
        "told = {'prompt': sys.stdin.read(), 'arguments': sys.argv[1:], 'here': os.getcwd(), 'held': os.listdir()}",
        f"open({str(tmp_path / 'told.json')!r}, 'w').write(json.dumps(told | {{'env': dict(os.environ)}}))",
        "open('left.txt', 'w').write('x')",
        "print('noise', file=sys.stderr)",
        "print(answer)",
    )
    async with program(*lines, environment={"PATH": os.environ["PATH"], "CLAUDECODE": "1", "KEPT": "yes"}) as at:
        await at.caller.ask(question())
    told = json.loads((tmp_path / "told.json").read_text())
    assert "SESSION_TTL in app/session.py" in told["prompt"]
    assert "JSON object" in told["prompt"]
    assert told["arguments"] == ["--model", "small one"]
    assert told["held"] == []
    assert told["env"]["MCP_MEMORY_DISABLE"] == "1"
    assert told["env"]["KEPT"] == "yes"
    assert "CLAUDECODE" not in told["env"]
    assert Path(told["env"]["PWD"]) == Path(told["here"])
    assert not Path(told["here"]).exists()
    # A transcript that an agent kept of it names the directory, and import passes it over.
    assert not detect(told["here"], {}).enabled
    assert detect(str(tmp_path), {}).enabled


async def test_a_server_that_an_agent_starts_while_it_is_asked_asks_no_other(tmp_path: Path) -> None:
    chosen = SummarizerSettings(kind="command", command=("agent",))
    for folder, asks in ((tmp_path / "home", True), (tmp_path / f"{OWN_QUESTIONS}x", False)):
        folder.mkdir()
        async with open_app(Settings(home=tmp_path / "memory", summarizer=chosen), cwd=folder) as app:
            assert bool(app.caller) is asks
            assert bool(app.upgrades) is asks


async def test_a_program_that_hangs_is_ended_with_all_that_it_started(program: Program, tmp_path: Path) -> None:
    lines = (
        "import os, subprocess, sys, time",
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])",
        f"open({str(tmp_path / 'ids')!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')",
        "time.sleep(600)",
    )
    async with program(*lines, timeout=1.5) as at:
        at.caller.tries = 1
        with pytest.raises(ModelTimeout, match=r"timeout_seconds"):
            await at.caller.ask(question())
        (row,) = await at.rows()
    assert row["outcome"] == "timeout"
    assert row["input_tokens"] > 100  # it may have been worked on
    for number in map(int, (tmp_path / "ids").read_text().split()):
        assert not _runs(number)


def _runs(number: int) -> bool:
    """Whether a process still works; one that only waits for its parent to look at it does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return False
        return not Path("/proc").is_dir()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("import sys; print('not logged in', file=sys.stderr); sys.exit(3)", r"exit code 3\. It said: not logged in"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", f"signal {int(signal.SIGKILL)}"),
        ("import sys; sys.stderr.write('x' * 100_000 + ' no model')", r"answered nothing\. It said: .* no model"),
        ("import sys; sys.stdout.write(sys.stdin.read())", "answered nothing"),
        ("raise RuntimeError('sk-test-0123456789abcdef0123456789abcdef')", "exit code 1"),
    ],
    ids=["fails", "is killed", "says nothing", "repeats the question", "shows a key"],
)
async def test_a_program_that_fails_is_told_with_what_it_said_and_tried_again(
    program: Program, line: str, told: str
) -> None:
    async with program(line) as at:
        with pytest.raises(TransportFailed, match=told) as caught:
            await at.caller.ask(question())
        assert await at.outcomes() == ["transport"] * 4
    assert "echo hello |" in str(caught.value)
    assert "sk-test" not in str(caught.value)
    assert len(str(caught.value)) < 600


async def test_a_program_without_end_is_stopped(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "MOST_BYTES", 50_000)
    async with program("while True: print('x' * 1000)") as at:
        with pytest.raises(InvalidOutput, match="more than 50,000 bytes"):
            await at.caller.ask(question())
        assert await at.outcomes() == ["invalid_output"] * 2


async def test_a_program_is_not_started_beyond_the_cap(program: Program, tmp_path: Path) -> None:
    async with program(f"open({str(tmp_path / 'ran')!r}, 'w')", "print(answer)", cap=100) as at:
        with pytest.raises(CapReached, match="daily_token_cap"):
            await at.caller.ask(question())
    assert not (tmp_path / "ran").exists()


async def test_a_program_that_does_not_read_may_answer(program: Program) -> None:
    async with program("print(answer)") as at:
        answer, _ = await at.caller.ask(question("[1] user: " + "a long text that no pipe holds. " * 20_000))
    assert answer.title == ANSWER["title"]


async def test_an_answer_that_is_none_is_asked_for_again_and_then_given_up(program: Program, tmp_path: Path) -> None:
    log = str(tmp_path / "asked")
    async with program(f"import sys; open({log!r}, 'a').write(sys.stdin.read())", "print('I cannot do that.')") as at:
        with pytest.raises(InvalidOutput, match="no JSON object"):
            await at.caller.ask(question())
        assert await at.outcomes() == ["invalid_output"] * 2
    assert "could not be used" in (tmp_path / "asked").read_text()


@pytest.mark.parametrize("name", ["no-such-program-at-all", "./model.py", "/nowhere/model"])
async def test_a_program_that_is_not_there_is_named_before_anything_is_asked(name: str, tmp_path: Path) -> None:
    async with asking(tmp_path, "command", honest, command=(name, "-p")) as at:
        with pytest.raises(SummarizerError, match=r"no program .*summarizer\.command"):
            await at.caller.ask(question())
        assert (await at.caller.readiness()).width == 0
        assert await at.rows() == []
        (problem,) = model_problems({}, at.caller.settings)
    assert name in problem.why


async def test_a_file_that_is_no_program_is_told(tmp_path: Path) -> None:
    strange = tmp_path / "strange"
    strange.write_bytes(b"\x7fELF and no more")
    strange.chmod(0o755)
    async with asking(tmp_path, "command", honest, command=(str(strange),)) as at:
        with pytest.raises(ModelUnusable, match="cannot be started"):
            await at.caller.ask(question())


def test_nothing_in_the_directory_at_hand_can_pose_as_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path / "project", tmp_path / "bin"):
        folder.mkdir()
        (folder / "tool").write_text("#!/bin/sh\n")
        (folder / "tool").chmod(0o755)
    monkeypatch.chdir(tmp_path / "project")
    path = os.pathsep.join(["", ".", "bin", str(tmp_path / "bin")])
    assert find_program("tool", {"PATH": path}) == str(tmp_path / "bin" / "tool")
    assert find_program("tool", {"PATH": "."}) is None
    assert find_program(str(tmp_path / "bin" / "tool"), {}) == str(tmp_path / "bin" / "tool")
