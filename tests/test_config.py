"""Settings: file and environment, checked at start, with errors that name file, key and what is allowed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_memory.capture.settings import read_flat
from mcp_memory.config import Settings, load, rows_of
from mcp_memory.errors import SettingsError


def env(home: Path, **more: str) -> dict[str, str]:
    return {"MCP_MEMORY_HOME": str(home), **more}


def test_no_configuration_is_needed(tmp_path: Path) -> None:
    settings = load(env(tmp_path))
    assert settings.home == tmp_path
    assert settings.segmentation.gap_minutes == 30
    assert settings.capture.max_event_bytes == 65_536
    assert settings.summarizer.kind == "extractive"


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        "[segmentation]\ngap_minutes = 45\nmax_tokens = 2000\n[brief]\nenabled = false\n"
    )
    settings = load(env(tmp_path, MCP_MEMORY_SEGMENTATION_GAP_MINUTES="60"))
    assert settings.segmentation.gap_minutes == 60
    assert settings.segmentation.max_tokens == 2000
    assert settings.brief.enabled is False


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[segmentation]\ngap_minutes = 0\n", "segmentation.gap_minutes = 0 must be a whole number from 1 to 1,440"),
        ("[segmentation]\ngap_minutes = true\n", "whole number"),
        ("[segmentation]\ngap = 3\n", "segmentation.gap is not a setting; known are gap_minutes"),
        ("[segments]\ngap = 3\n", "[segments] is not a section; known are calendar"),
        ('[calendar]\ntimezone = "Mars/Olympus"\n', "Europe/Berlin"),
        ('[summarizer]\nkind = "magic"\n', "must be one of: extractive"),
        ('[summarizer]\nkind = "ollama"\n', "needs summarizer.model: a model that `ollama list` shows"),
        ('[summarizer]\nkind = "command"\n', "needs summarizer.command: a program"),
        ('[summarizer]\ncommand = "\'claude -p"\n', "must be a program and its arguments"),
        ("[summarizer]\ncommand = [1]\n", "must be a program and its arguments"),
        ("[summarizer]\ncommand = 7\n", "must be a program and its arguments"),
        ('[summarizer]\ncommand = [""]\n', "must be a program and its arguments"),
        ('[capture]\nenabled = "maybe"\n', "true or false"),
        ("[capture\n", "cannot be read"),
    ],
)
def test_a_bad_setting_names_file_key_and_what_is_allowed(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(env(tmp_path))
    assert "config.toml" in str(caught.value)
    assert says in str(caught.value)


def test_a_bad_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="MCP_MEMORY_BRIEF_BUDGET_TOKENS"):
        load(env(tmp_path, MCP_MEMORY_BRIEF_BUDGET_TOKENS="lots"))
    with pytest.raises(SettingsError, match="MCP_MEMORY_NOW"):
        load(env(tmp_path, MCP_MEMORY_NOW="soon"))


def test_a_password_that_takes_an_address_apart_is_told_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="write @ as %40") as caught:
        load(env(tmp_path, MCP_MEMORY_STORE_URL="postgresql://memory:geh@eim/4711@127.0.0.1/memory"))
    assert not any(part in str(caught.value) for part in ("geh", "eim", "4711"))
    whole = "postgresql://memory:geh%40eim@127.0.0.1/memory?options=-csearch_path%3Da@b"
    assert load(env(tmp_path, MCP_MEMORY_STORE_URL=whole)).store.url == whole


def test_every_default_passes_its_own_check() -> None:
    for row in (row for section in rows_of(Settings).values() for row in section.values()):
        assert row.metadata["check"](row.default) == row.default


def test_the_clock_can_be_stood_still(tmp_path: Path) -> None:
    assert load(env(tmp_path, MCP_MEMORY_NOW="1970-01-01T00:00:01Z")).now_ms == 1_000
    assert load(env(tmp_path)).now_ms is None


def test_compaction_is_set_by_file_and_variable(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[compaction]\ntrigger_ratio = 0.9\ncontext_lengths = {"my-model" = 32768}\n')
    chosen = load(env(tmp_path, MCP_MEMORY_COMPACTION_RESET_RATIO="0.5")).compaction
    assert (chosen.trigger_ratio, chosen.reset_ratio, chosen.context_lengths) == (0.9, 0.5, "my-model=32768")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("trigger_ratio = 1.5", "0.1 to 1.0"),
        ("trigger_ratio = true", "0.1 to 1.0"),
        ('reset_ratio = "low"', "0.1 to 1.0"),
        ("reset_ratio = 0.8", "below compaction.trigger_ratio"),
        ("preserve_recent = 1", "from 2"),
        ('context_lengths = "my-model"', "tokens by model"),
        ("context_lengths = 5", "tokens by model"),
        ('context_lengths = "x=100"', "tokens by model, 256 to"),
        ('context_lengths = "x=999999999"', "tokens by model, 256 to"),
        ('context_lengths = "x=32768=1"', "tokens by model"),
        ('min_messages = "--5"', "must be a whole number from 3"),
    ],
)
def test_a_bad_setting_of_compaction_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "config.toml").write_text(f"[compaction]\n{text}\n")
    with pytest.raises(SettingsError, match=says):
        load(env(tmp_path))


def test_a_misspelt_variable_is_told_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="MCP_MEMORY_BRIEF_BUDGET is not a setting.*MCP_MEMORY_BRIEF_BUDGET_TOKENS"):
        load(env(tmp_path, MCP_MEMORY_BRIEF_BUDGET="800"))
    assert load(env(tmp_path, MCP_MEMORY_OF_SOMEONE_ELSE="800")).brief.budget_tokens == 1_200


def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.toml")
    with pytest.raises(SettingsError, match="is a pipe"):
        load(env(tmp_path))
    assert read_flat(str(tmp_path / "config.toml")) == {}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ('"claude -p --model haiku"', ("claude", "-p", "--model", "haiku")),
        ("\"llm -s 'in one line'\"", ("llm", "-s", "in one line")),
        ('["llm", "-s", "$HOME; rm"]', ("llm", "-s", "$HOME; rm")),
    ],
)
def test_a_command_is_a_list_or_one_line_and_signs_with_its_name(tmp_path: Path, given: str, words: tuple[str]) -> None:
    (tmp_path / "config.toml").write_text(f'[summarizer]\nkind = "command"\ncommand = {given}\n')
    chosen = load(env(tmp_path)).summarizer
    assert chosen.command == words
    assert chosen.preferred == (words[0],)
    other = load(env(tmp_path, MCP_MEMORY_SUMMARIZER_COMMAND="/opt/my/tool.sh -x", MCP_MEMORY_SUMMARIZER_MODEL=""))
    assert other.summarizer.command == ("/opt/my/tool.sh", "-x")
    assert other.summarizer.preferred == ("tool",)


def test_a_file_of_the_project_cannot_say_what_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    for name in (".mcp-memory.toml", "config.toml", ".env"):
        (project / name).write_text('[summarizer]\nkind = "command"\ncommand = "evil"\n')
    monkeypatch.chdir(project)
    assert load(env(home)).summarizer.kind == "extractive"


def test_the_key_of_one_service_is_not_given_to_another(tmp_path: Path) -> None:
    keys = {"OPENAI_API_KEY": "sk-openai", "ANTHROPIC_API_KEY": "sk-ant"}
    for kind, key in {"openai": "sk-openai", "anthropic": "sk-ant", "ollama": "", "command": ""}.items():
        more = {"MCP_MEMORY_SUMMARIZER_KIND": kind, "MCP_MEMORY_SUMMARIZER_MODEL": "m"}
        more["MCP_MEMORY_SUMMARIZER_COMMAND"] = "tool"
        assert load(env(tmp_path, **more, **keys)).api_key == key
