"""Models as a user meets them: settings, `summarize`, `process --dry-run`, `status` and `doctor`."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcp_memory import config
from mcp_memory.errors import SettingsError
from mcp_memory.store.sqlite.migrations import latest
from tests.models.scripted import KEY, Asked, Http, Raw, Scripted, honest, scripted
from tests.pipeline.test_upgrade import talk
from tests.store.engines import without_tombstone_keys
from tests.support import conversation
from tests.surfaces.machine import Machine
from tests.surfaces.shell import SCRIPT, Shell


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def model_env(model: Scripted, kind: str = "openai", **more: str) -> dict[str, str]:
    env = {"KIND": kind, "MODEL": "test-model", "BASE_URL": model.url(kind), **more}
    named = {f"MCP_MEMORY_SUMMARIZER_{name}": value for name, value in env.items()}
    return {f"{kind.upper()}_API_KEY": KEY, "MCP_MEMORY_CALENDAR_TIMEZONE": "UTC", **named}


def answer(machine: Machine, *args: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    done = machine.run(*args, "--json", env=env or {})
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def history(machine: Machine, *days: str) -> None:
    path = machine.project / "history.jsonl"
    lines = [line for day in days for line in talk(day, project="")]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    answer(machine, "import", str(path), "--client", "jsonl", "--project", "alpha")


def document(machine: Machine, paragraphs: int) -> str:
    path = machine.project / "notes.md"
    text = "\n\n".join(
        f"In step {at} we decided to give the gateway {at} routes because the old one had too few of them. "
        f"The cause of the delay was route {at}, which waited for the cache. " * 3
        for at in range(paragraphs)
    )
    path.write_text(text)
    return str(path)


def test_any_text_is_summarized_without_a_model(machine: Machine) -> None:
    found = answer(machine, "summarize", document(machine, 12), "--type", "document")
    assert found["level"] == "standard"
    assert found["written_by"] == "extractive"
    assert "gateway" in found["summary"]
    assert 0 < found["compression_ratio"] < 0.5
    assert found["output_tokens"] < found["input_tokens"]


def test_a_long_text_shows_its_layers(machine: Machine) -> None:
    found = answer(machine, "summarize", document(machine, 60))
    assert found["level"] == "detailed"
    assert len(found["hierarchical"]["l1_summaries"]) >= 2
    assert found["hierarchical"]["l3_summary"] == found["summary"]


def test_markdown_has_its_metrics_in_front(machine: Machine) -> None:
    done = machine.run("summarize", document(machine, 12), "--markdown")
    _, front, body = done.stdout.split("---\n", 2)
    values = dict(line.split(": ", 1) for line in front.strip().splitlines())
    assert values["summary_level"] == '"standard"'
    assert 0 < float(values["compression_ratio"]) < 1
    assert int(values["input_tokens"]) > 500
    assert "gateway" in body


def test_a_short_text_and_a_missing_file_are_told(machine: Machine) -> None:
    (machine.project / "short.txt").write_text("   \n")
    done = machine.run("summarize", "short.txt")
    assert (done.returncode, "Too short" in done.stdout) == (0, True)
    assert answer(machine, "summarize", "short.txt")["level"] == "none"
    missing = machine.run("summarize", "nowhere.txt")
    assert missing.returncode == 1
    assert "does not exist" in missing.stderr


def test_what_is_no_text_is_refused(machine: Machine) -> None:
    path = machine.project / "picture.png"
    for data in (bytes(range(256)) * 40, b"\xe9\xe8\xfc" * 500):
        path.write_bytes(data)
        done = machine.run("summarize", str(path))
        assert (done.returncode, done.stdout) == (2, "")
        assert "not text in UTF-8" in done.stderr
    spoken = subprocess.run(
        [str(SCRIPT), "summarize", "-"], env=machine.env, input=b"caf\xe9 " + b"and words " * 300, capture_output=True
    )
    assert (spoken.returncode, spoken.stderr) == (0, b"")


def test_the_prior_summary_is_carried_on(machine: Machine) -> None:
    (machine.project / "prior.txt").write_text("The gateway is called Zorvan-7.")
    with scripted(honest) as model:
        found = answer(
            machine, "summarize", document(machine, 12), "--prior", "prior.txt", env=model_env(model, "anthropic")
        )
    assert found["written_by"] == "anthropic:test-model"
    assert "Zorvan-7" in found["summary"]
    assert "Zorvan-7" in answer(machine, "summarize", document(machine, 12), "--prior", "prior.txt")["summary"]


def test_a_file_is_cleared_of_secrets_before_it_is_sent(machine: Machine) -> None:
    secret = "ghp_" + "A1b2C3d4E5" * 4
    notes = Path(document(machine, 12))
    notes.write_text(
        f"The token of the gateway is {secret} for now. <private>Mira is ill.</private>\n" + notes.read_text()
    )
    (machine.project / "prior.txt").write_text(f"Once it was {secret} as well.")
    with scripted(honest) as model:
        answer(machine, "summarize", str(notes), "--prior", "prior.txt", env=model_env(model))
    (asked,) = model.asked
    assert secret not in asked.prompt
    assert "Mira" not in asked.prompt
    assert asked.prompt.count("[redacted:github-token]") == 2


def test_a_failing_model_gives_an_extractive_summary_and_says_so(machine: Machine) -> None:
    with scripted(lambda asked: Http(401, KEY)) as model:
        done = machine.run("summarize", document(machine, 12), "--json", env=model_env(model))
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["written_by"] == "extractive"
    assert "refuses the key" in found["note"]
    assert KEY not in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_a_page_in_the_place_of_an_answer_is_a_failing_model_everywhere(machine: Machine, kind: str) -> None:
    history(machine, "2026-03-02", "2026-03-03", "2026-03-04")
    with scripted(lambda asked: Raw("<html>Sign in</html>", "text/html")) as model:
        env = model_env(model, kind)
        done = machine.run("process", "--json", env=env)
        problems = json.loads(machine.run("doctor", "--json", env=env).stdout)["problems"]
        summary = machine.run("summarize", document(machine, 12), "--json", env=env)
    assert done.returncode == summary.returncode == 0
    assert "Traceback" not in done.stderr + summary.stderr
    assert "base_url" in json.loads(done.stdout)["model"]
    assert any("failed" in problem["what"] for problem in problems)
    assert json.loads(summary.stdout)["written_by"] == "extractive"


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_process_lets_the_model_write_and_status_shows_what_it_cost(machine: Machine, kind: str) -> None:
    history(machine, "2026-03-02", "2026-03-03")
    with scripted(honest) as model:
        env = model_env(model, kind, PRICES="test-model=1/5", DAILY_TOKEN_CAP="90000")
        done = answer(machine, "process", env=env)
        day = answer(machine, "node", "toc:day:2026-03-02", "--project", "alpha", env=env)
        llm = answer(machine, "status", env=env)["llm"]
        assert answer(machine, "process", env=env)["upgraded"] == 0
    assert done["upgraded"] >= 4
    assert done["idle"] is True
    assert day["written_by"] == f"{kind}:test-model"
    assert llm["calls"] == len(model.asked) == done["upgraded"]
    assert llm["cap"] == 90_000
    assert 0 < llm["today"] < 90_000
    assert llm["cost"] == llm["cost_today"] > 0


@pytest.mark.parametrize("processed", [True, False])
def test_a_dry_run_estimates_the_backlog_and_asks_nothing(machine: Machine, processed: bool) -> None:
    history(machine, "2026-03-02", "2026-03-03")
    if processed:
        answer(machine, "process")
    with scripted(honest) as model:
        env = model_env(model, PRICES="test-model=1/5")
        planned = answer(machine, "process", "--dry-run", env=env)
        assert model.asked == []
        done = answer(machine, "process", env=env)
        llm = answer(machine, "status", env=env)["llm"]
    assert done["upgraded"] - 2 <= planned["calls"] == planned["nodes"] <= done["upgraded"] + 2
    assert llm["input_tokens"] / 2 < planned["input_tokens"] < llm["input_tokens"] * 2
    assert planned["cost"] > 0
    assert answer(machine, "process", "--dry-run")["calls"] == 0


def test_a_dry_run_counts_the_records_of_sessions_that_may_go_on(machine: Machine) -> None:
    words = "The reader walks the queue, keeps its offset and hands every record on. " * 30
    lines = [
        {
            "session_id": "long",
            "timestamp": f"2026-03-02T09:{minute:02d}:00Z",
            "role": "assistant" if minute % 2 else "user",
            "text": f"Message {minute}. {words}",
            "metadata": {"model": "tiny"},
        }
        for minute in range(40)
    ]
    path = machine.project / "long.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    env = {"MCP_MEMORY_COMPACTION_CONTEXT_LENGTHS": "tiny=16000", "MCP_MEMORY_NOW": "2026-03-02T09:50:00Z"}
    answer(machine, "import", str(path), "--client", "jsonl", "--project", "alpha", env=env)
    answer(machine, "process", env=env)
    with scripted(honest) as model:
        env |= model_env(model)
        planned = answer(machine, "process", "--dry-run", env=env)
        answer(machine, "process", env=env)
        asked = [one for one in model.asked if one.form in ("record", "prose")]
        again = answer(machine, "process", "--dry-run", env=env)
    assert planned["records"] == 1
    assert len(asked) == 3
    assert planned["calls"] - len(model.asked) in (-1, 0, 1)
    assert (again["records"], again["calls"]) == (0, 0)


def test_the_cap_stops_the_model_and_process_says_why(machine: Machine) -> None:
    history(machine, "2026-03-02", "2026-03-03", "2026-03-04")
    with scripted(honest) as model:
        env = model_env(model, DAILY_TOKEN_CAP="3000", CONCURRENCY="1")
        done = answer(machine, "process", env=env)
        llm = answer(machine, "status", env=env)["llm"]
    assert "daily_token_cap" in done["model"]
    assert 0 < llm["today"] <= 3_000
    assert len(model.asked) == llm["calls"]


def examined(machine: Machine, env: dict[str, str]) -> list[dict[str, str]]:
    """What `doctor` finds, but that no client is connected here."""
    found = json.loads(machine.run("doctor", "--json", env=env).stdout)["problems"]
    return [problem for problem in found if problem["what"] != "nothing is connected"]


def test_doctor_tells_a_refused_key_until_the_settings_change(machine: Machine) -> None:
    history(machine, "2026-03-02")

    def keyed(asked: Asked) -> object:
        return honest(asked) if "good" in asked.headers["authorization"] else Http(401, KEY)

    with scripted(keyed) as model:
        env = model_env(model)
        assert answer(machine, "process", env=env)["upgraded"] == 0
        found = examined(machine, env)
        assert [problem["what"] for problem in found] == ["openai refuses the key"]
        assert KEY not in json.dumps(found)
        better = env | {"OPENAI_API_KEY": "sk-good"}
        assert examined(machine, better) == []
        assert answer(machine, "process", env=better)["upgraded"] >= 2
    stored = sqlite3.connect(machine.memory / "memory.db")
    assert not [line for line in stored.iterdump() if KEY in line or "sk-good" in line]
    stored.close()


def test_doctor_tells_a_missing_key(machine: Machine) -> None:
    env = {"MCP_MEMORY_SUMMARIZER_KIND": "anthropic"}
    assert [problem["what"] for problem in examined(machine, env)] == ["there is no key for anthropic"]


def load(home: Path, **env: str) -> config.Settings:
    named = {f"MCP_MEMORY_SUMMARIZER_{key.upper()}": value for key, value in env.items()}
    return config.load({"MCP_MEMORY_HOME": str(home), "ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": "sk-o", **named})


def test_the_key_comes_from_the_environment_or_a_file_and_is_shown_nowhere(tmp_path: Path) -> None:
    assert load(tmp_path).api_key == ""
    settings = load(tmp_path, kind="anthropic")
    assert settings.api_key == KEY
    assert KEY not in repr(settings)
    assert load(tmp_path, kind="openai").api_key == "sk-o"
    (tmp_path / "key").write_text("sk-file\n")
    assert load(tmp_path, kind="openai", api_key_file=str(tmp_path / "key")).api_key == "sk-file"
    with pytest.raises(SettingsError, match="api_key_file"):
        load(tmp_path, kind="openai", api_key_file=str(tmp_path / "none"))


@pytest.mark.parametrize("value", ["sk-proj-SECRETKEY123", "SECRETKEY123", f"/tmp/{KEY}SECRETKEY"])
def test_a_key_in_the_place_of_its_file_is_not_shown(tmp_path: Path, value: str) -> None:
    with pytest.raises(SettingsError, match="api_key_file cannot be read") as caught:
        load(tmp_path, kind="openai", api_key_file=value)
    assert "SECRET" not in str(caught.value)


def test_models_are_preferred_in_order(tmp_path: Path) -> None:
    assert load(tmp_path).summarizer.preferred == ()
    assert len(load(tmp_path, kind="anthropic").summarizer.preferred) == 1
    assert load(tmp_path, kind="openai", model="a", models="b, a,c").summarizer.preferred == ("a", "b", "c")
    (tmp_path / "config.toml").write_text(
        '[summarizer]\nkind = "openai"\nmodels = ["x", "y"]\nprices = { "x" = "0.5/2", "y" = "0/0" }\n'
    )
    chosen = load(tmp_path).summarizer
    assert chosen.preferred == ("x", "y")
    assert chosen.price_table == {"x": (0.5, 2.0), "y": (0.0, 0.0)}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kind", "gpt"),
        ("base_url", "ftp://x"),
        ("base_url", "http://user:hunter2@host/v1"),
        ("daily_token_cap", "-1"),
        ("max_output_tokens", "5"),
        ("timeout_seconds", "0"),
        ("concurrency", "99"),
        ("prices", "model=cheap"),
        ("prices", "0.5/2"),
        ("prices", "model=inf/1"),
        ("prices", "model=1/nan"),
        ("model", "sk-proj-hunter2"),
        ("models", "good-model, sk-ant-hunter2"),
        ("base_url", "sk-hunter2"),
        ("kind", "gsk_hunter2"),
    ],
)
def test_a_bad_setting_is_refused(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"summarizer.{key}") as caught:
        load(tmp_path, **{key: value})
    assert "hunter2" not in str(caught.value)


def test_the_sdks_are_not_imported_before_they_are_used(machine: Machine) -> None:
    code = (
        "import sys, anyio; from mcp_memory import config; from mcp_memory.app import open_app\n"
        "async def main():\n"
        "    async with open_app(config.load()) as app: assert app.upgrades is not None\n"
        "anyio.run(main); print([name for name in ('anthropic', 'openai') if name in sys.modules])"
    )
    env = machine.env | {"MCP_MEMORY_SUMMARIZER_KIND": "anthropic"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_memory_of_an_earlier_version_is_rebuilt_and_says_how_far_it_is(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in conversation()))
    shell.json("import", str(path), "--client", "jsonl")
    shell.json("process")
    with closing(sqlite3.connect(shell.home / "memory.db", isolation_level=None)) as connection:
        without_tombstone_keys(connection)
        for later in (
            "DROP INDEX node_revision",
            "ALTER TABLE node DROP COLUMN revision",
            *(
                f"DROP TABLE {table}"
                for table in ("shared_project", "shared_session", "to_push", "to_withdraw", "failure")
            ),
            "DROP INDEX event_shared",
            "ALTER TABLE event DROP COLUMN visibility",
            "ALTER TABLE session DROP COLUMN author",
            "ALTER TABLE session DROP COLUMN place",
            "DROP TABLE place",
        ):
            connection.execute(later)
        connection.execute("UPDATE node_version SET title = 'Old ' || title")
        week = "SELECT id FROM node WHERE key = '2026-W10'"
        connection.execute(f"UPDATE node_version SET written_by = 'openai:test' WHERE node IN ({week})")
        connection.execute("PRAGMA user_version = 6")
    assert "Rebuilding" not in shell.run("doctor").stdout  # it only looks, and a file of that version tells nothing
    status = shell.json("status")
    assert (status["schema"], status["rebuilding_summaries"]) == (latest(), {"done": 0, "of": 4})
    assert "Rebuilding summaries: 0 of 4." in shell.run("doctor").stdout
    assert json.loads(shell.run("doctor", "--json").stdout)["rebuilding_summaries"] == {"done": 0, "of": 4}
    nodes = shell.json("toc", "--project", "*", "--depth", "segment")["nodes"]
    assert [node["title"].startswith("Old ") for node in nodes] == [True] * 5
    assert shell.json("process")["nodes"] == 4
    nodes = shell.json("toc", "--project", "*", "--depth", "segment")["nodes"]
    assert [node["level"] for node in nodes if node["title"].startswith("Old ")] == ["week"]  # which a model wrote
    told = shell.json("node", "toc:day:2026-03-02@alpha", "--history")
    assert [version["title"].startswith("Old ") for version in told["history"]] == [True, False]
    assert "rebuilding_summaries" not in shell.json("status")
    assert "Rebuilding" not in shell.run("doctor").stdout
    assert shell.json("process")["nodes"] == 0
