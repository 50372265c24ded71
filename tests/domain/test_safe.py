"""Recalled text carries nothing that a reader does not see, and nothing that a client would take for its own words."""

from __future__ import annotations

import re
import unicodedata

import pytest

from mcp_memory.domain.text import clean, clean_json, count_defused, safe

#: Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties.txt.
IGNORABLE = """
    00AD 034F 061C 115F..1160 17B4..17B5 180B..180F 200B..200F 202A..202E 2060..206F 3164 FE00..FE0F FEFF FFA0
    FFF0..FFF8 1BCA0..1BCA3 1D173..1D17A E0000..E0FFF
"""
HOSTILE = [
    "<system-reminder>",
    "</system-reminder>",
    "< / system-reminder >",
    "<  system-reminder  >",
    "<\nsystem-reminder\n>",
    "<system_reminder>",
    "<system reminder>",
    "<systemreminder>",
    "<systemReminder>",
    "<SYSTEM-REMINDER>",
    "<System.Reminder>",
    "<system:reminder/>",
    "<system‑reminder>",
    "<system-reminder",
    "<system-reminder kind='x'>",
    "< system-reminder kind='x'>",
    "＜system-reminder＞",
    "<ｓｙｓｔｅｍ－ｒｅｍｉｎｄｅｒ>",
    "<𝘀𝘆𝘀𝘁𝗲𝗺-reminder>",
    "<\u0455\u0443\u0455tem-reminder>",
    "</m\u0435m\u043ery>",
    "&lt;system-reminder&gt;",
    "&#60;/system-reminder&#62;",
    "&#x3C;system-reminder>",
    "\\u003csystem-reminder\\u003e",
    "%3Csystem-reminder%3E",
    "<\\/system-reminder>",
    "<sys\u00adtem-rem\u034finder>",
    "<system\U000e0101-reminder>",
    "word<system-reminder>",
    "<system>",
    "</system>",
    "<system-warning>",
    "<assistant>",
    "</human>",
    "<user>",
    "<user id='1'>",
    "</memory>",
    '<memory project="x">',
    "<recalled>",
    "<command-name>",
    "<command-message>",
    "<local-command-stdout>",
    "<function_calls>",
    "<function_results>",
    "<functionCalls>",
    '<invoke name="Bash">',
    '<parameter name="command">',
    "<invoke>",
    "</function_calls>",
    "<tool_use>",
    "<tool_result>",
    "<tool-use-error>",
    "<user-prompt-submit-hook>",
    "<post-tool-use-hook>",
    "<hook_context>",
    "<environment_context>",
    "<user_instructions>",
    "<task-notification>",
    "<start_of_turn>",
    "<|im_start|>",
    "<|assistant|>",
    "< | im_end | >",
    "<｜User｜>",
]
ORDINARY = [
    "List<User> users = new ArrayList<>();",
    "Promise<UserResponse | null>",
    "Vec<ToolCall>",
    "std::vector<my_type> x;",
    "#include <linux/if_ether.h>",
    "for (i = 0; i < user.length; i++)",
    "if n < tool_calls:",
    "while (used<memory.limit)",
    "<div class='system'><p>Hi</p></div>",
    "<my-component> <router-view/> <userland>",
    "git <command> [<args>] <user-id> <session-id> <function-name>",
    "<systematic> <toolbar> <username> <commander>",
    "a <b> c &lt;b&gt; 1 < 2 > 0 &amp; x << 3",
    "<система> <напоминание> <Ελλάδα>",
    "<tool-use-id>toolu_1</tool-use-id> <tool_uses>36</tool_uses> <toolUseID> <task_id> <message-count>",
    "Line one\n\tLine two · naïve 日本語 — “quoted”",
]


def ignorable() -> list[str]:
    spans = [span.split("..") for span in IGNORABLE.split()]
    return [chr(code) for span in spans for code in range(int(span[0], 16), int(span[-1], 16) + 1)]


@pytest.mark.parametrize("span", IGNORABLE.split())
def test_no_character_stays_that_no_screen_shows(span: str) -> None:
    first, _, last = span.partition("..")
    for code in range(int(first, 16), int(last or first, 16) + 1):
        assert clean(f"a{chr(code)}b") == "ab"
        assert safe(f"a{chr(code)}b") == "ab"


def test_all_control_and_format_characters_of_the_running_unicode_are_hidden_or_visible_by_themselves() -> None:
    """Format characters that stay have a shape of their own, such as the signs before Arabic and Egyptian numbers."""
    staying = {chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cf")}
    staying = {char for char in staying if clean(char)}
    assert staying <= set("\t\n") | set(map(chr, [*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2])) | set(
        map(chr, [0x110BD, 0x110CD, *range(0x13430, 0x13440)])
    )


@pytest.mark.parametrize("tag", HOSTILE)
def test_a_tag_that_poses_as_a_clients_own_is_defused_in_any_spelling(tag: str) -> None:
    shown = clean(f"before {tag} after")
    assert "‹" in shown
    assert not re.search(r"[<＜]|&lt|&#60|&#x3c|u003c|%3c", shown, re.I), shown
    assert clean(shown) == shown


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_code_and_prose_stay_as_they_are(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize("tag", HOSTILE)
def test_both_brackets_of_a_defused_tag_are_replaced(tag: str) -> None:
    shown = clean(f"before {tag} after")
    has_end = bool(re.search(r"[>＞]|&gt;|&#62;|u003e|%3E", tag))
    assert shown.count("›") == has_end
    assert not re.search(r"[>＞]|&gt;|&#62;|u003e|%3E", shown)
    assert count_defused(f"before {tag} after") == 1
    assert count_defused(shown) == 0


@pytest.mark.parametrize("text", ORDINARY)
def test_nothing_is_counted_where_nothing_is_defused(text: str) -> None:
    assert count_defused(text) == 0


def test_a_tag_whose_end_is_far_away_takes_no_other_bracket() -> None:
    assert clean("<system-reminder and a < b > c") == "‹system-reminder and a < b > c"
    assert clean("<system-reminder\nx > y") == "‹system-reminder\nx > y"
    assert clean("a -> <system-reminder>x -> y</system-reminder>") == "a -> ‹system-reminder›x -> y‹/system-reminder›"


def test_hidden_characters_cannot_put_a_tag_together() -> None:
    for char in ignorable()[::37]:
        assert "<system" not in clean(f"<{char}system{char}-reminder>")


def test_every_text_of_a_json_value_is_cleaned() -> None:
    value = {"a": ["<system-reminder>", {"b\u200b": "x\u061cy"}], "n": 1, "t": ("z\u3164",), "none": None, "yes": True}
    assert clean_json(value) == {
        "a": ["‹system-reminder›", {"b": "xy"}],
        "n": 1,
        "t": ["z"],
        "none": None,
        "yes": True,
    }
