"""What a person typed, out of what Claude Code makes of it."""

from __future__ import annotations

import pytest

from mcp_memory.clients.claude_tools import compact_summary, interrupted, said, typed, without_injected


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("  Mend the fence.\n", "Mend the fence."),
        ("Mend it.\n<system-reminder>Be brief.</system-reminder>", "Mend it."),
        ("<system-reminder>a</system-reminder> Mend <hook_context id='1'>b</hook_context>it.", "Mend it."),
        ("<ide_opened_file>The user opened x.py</ide_opened_file>Mend it.", "Mend it."),
        ("<task-notification><id>1</id></task-notification>", ""),
        ("<local-command-stdout>Bye!</local-command-stdout>", ""),
        ("<local-command-caveat>Caveat: …</local-command-caveat>", ""),
        ("<bash-input>ls -l</bash-input>", "! ls -l"),
        ("<bash-stdout>total 0</bash-stdout><bash-stderr></bash-stderr>", ""),
        ("<command-name>/exit</command-name><command-message>exit</command-message><command-args></command-args>", ""),
        ("<command-name>/compact</command-name><command-args>keep names</command-args>", "/compact keep names"),
        ("<command-message>review</command-message>\n<command-name>/review</command-name>", "/review"),
        (
            "<command-message>fix</command-message><command-name>/fix</command-name><command-args>1\n</command-args>",
            "/fix 1",
        ),
        ("/clear", ""),
        ("/fix 12", "/fix 12"),
        ("Operation stopped by hook: no.\n\nPress the up arrow key to get your prompt back.", ""),
        ("Why does <system-reminder> stay open?", "Why does <system-reminder> stay open?"),
        (
            "What does <task-notification><id>1</id></task-notification> mean?",
            "What does <task-notification><id>1</id></task-notification> mean?",
        ),
        ("Hide `<bash-stdout>x</bash-stdout>`, please.", "Hide `<bash-stdout>x</bash-stdout>`, please."),
        ("<ide_selection>a</ide_selection> <hook_context>b</hook_context> Mend it.", "Mend it."),
        ("Mend it. <system-reminder>Be brief.</system-reminder>", "Mend it."),
        ("Mend <system-reminder>Be\nbrief.</system-reminder> it.", "Mend  it."),
        (
            "Is <div>this</div> <command-name>kept</command-name>?",
            "Is <div>this</div> <command-name>kept</command-name>?",
        ),
    ],
)
def test_a_prompt_is_what_was_typed(prompt: str, expected: str) -> None:
    assert typed(prompt) == expected


def test_many_unclosed_tags_are_left_alone() -> None:
    text = "<hook_context>" * 20_000 + "<system-reminder>x</system-reminder>"
    assert without_injected(text) == "<hook_context>" * 20_000


def test_an_interruption_is_told_apart() -> None:
    assert interrupted("[Request interrupted by user for tool use]")
    assert not interrupted("Was the [Request interrupted by user]?")


@pytest.mark.parametrize("text", ["\n\n", "(no content)", "No response requested."])
def test_what_the_client_says_in_the_models_name_is_nothing(text: str) -> None:
    assert said(text) == ""


def test_a_compaction_reads_the_same_from_hook_and_transcript() -> None:
    hook = "<analysis>\nFirst, Summary:\n</analysis>\n<summary>\n1. The fence.\n2. The gate.\n</summary>"
    told = (
        "This session is being continued from a previous conversation that ran out of context. The summary below "
        "covers the earlier portion of the conversation.\n\nAnalysis:\nFirst this.\n\nSummary:\n1. The fence.\n"
        "2. The gate.\n\nIf you need specific details from before compaction (like exact code snippets), read the "
        "full transcript at: /x.jsonl\nPlease continue the conversation from where we left it off."
    )
    assert compact_summary(hook) == compact_summary(told) == "1. The fence.\n2. The gate."
