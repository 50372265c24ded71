from __future__ import annotations

import json
import sys
from types import FrameType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_memory.capture.clipping import bounded, clean, clip, looked_through, shorten
from mcp_memory.capture.redaction import redact, redact_json
from mcp_memory.capture.redaction.names import FOREIGN, WORDS
from mcp_memory.capture.redaction.values import RULES

any_text = st.text(st.characters(exclude_categories=()), max_size=400)


@given(any_text, st.integers(0, 600))
@example("😀" * 100, 59)
@example("é\n" * 300, 301)
def test_clipped_text_is_never_over_the_limit(text: str, limit: int) -> None:
    clipped, cut = clip(text, limit)
    assert len(clipped.encode("utf-8")) <= limit
    assert cut == (clipped != clean(text))


@given(any_text, st.integers(0, 600))
def test_clipping_twice_changes_nothing(text: str, limit: int) -> None:
    once, _ = clip(text, limit)
    assert clip(once, limit) == (once, False)


@given(any_text)
def test_clean_text_is_valid_and_keeps_what_was(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert "\0" not in cleaned
    if "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text):
        assert cleaned == text


def test_halves_of_a_pair_are_joined_and_lone_ones_replaced() -> None:
    assert clean("\ud83d\ude00 \ud83d \ude00\x00") == "😀 \ufffd \ufffd\ufffd"


def test_middle_is_cut_out_and_counted() -> None:
    text = "a" * 1000 + "b" * 1000
    clipped, cut = clip(text, 300)
    head, mark, tail = clipped.partition("\n[… ")
    assert cut
    assert set(head) == {"a"}
    number, _, rest = (mark + tail).removeprefix("\n[… ").partition(" bytes cut …]\n")
    assert int(number) == 2000 - len(head) - len(rest)
    assert set(rest) == {"b"}


def test_cut_is_made_between_lines_if_one_ends_near() -> None:
    lines = [f"line {number:04d}" for number in range(500)]
    clipped, _ = clip("\n".join(lines), 1000)
    assert all(line in lines or line.startswith("[… ") for line in clipped.splitlines())


def test_text_that_fits_is_left_alone() -> None:
    assert clip("é" * 50, 100) == ("é" * 50, False)


KEY = "sk-ant-" + "api03-" + "Ab3xY7k" * 14


@pytest.mark.parametrize("shift", range(0, 240, 7))
def test_no_secret_is_cut_in_two_and_left(shift: int) -> None:
    text = "x" * shift + f" {KEY} and more\n" * 3_000
    assert "Ab3xY7k" not in redact(shorten(text, 20_000))


def test_a_huge_text_keeps_its_ends_and_says_what_it_lost() -> None:
    lines = [f"line {number}" for number in range(100_000)]
    short = shorten("\n".join(lines), 5_000)
    assert len(short) <= 5_100
    head, _, rest = short.partition("\n[… ")
    lost, _, tail = rest.partition(" bytes cut …]\n")
    assert head.split("\n") == lines[: len(head.split("\n"))]
    assert tail.strip("\n").split("\n")[-1] == lines[-1]
    assert int(lost) == len("\n".join(lines)) - len(head) - len(tail)


def test_what_was_marked_private_before_a_cut_does_not_come_back_behind_it() -> None:
    text = "<private>" + "whispered words\n" * 5_000 + "</private>\n" + "said aloud\n" * 20
    short = redact(shorten(text, 4_000))
    assert "whispered" not in short
    cut = redact(shorten("x\n" * 5_000 + text, 4_000))
    assert "whispered" not in cut
    assert cut.endswith("said aloud\n")


def test_a_payload_keeps_its_envelope_however_large_the_rest_is() -> None:
    payload = {"stdout": "password=" * 400_000, "many": [{"a": "b"}] * 50_000, "session_id": "s1", "cwd": "/home/ada"}
    small = bounded(payload, 65_536)
    assert (small["session_id"], small["cwd"]) == ("s1", "/home/ada")
    assert len(json.dumps(small)) < 2_000_000


def test_a_payload_of_ordinary_size_is_left_alone() -> None:
    payload = {
        "tool_input": {"content": "the key of the token\n" * 2_000},
        "tool_response": [{"text": "x" * 60_000}] * 4,
    }
    assert bounded(payload, 65_536) == payload


HOSTILE = ["curl -u ", "password=", "password: ", "key=", "<private", '"', '\\"', "eyJ.", "://a:", "a:b@", "zip -P "]
HOSTILE += [
    "password,password\n",
    "│ password │\n",
    "insert into t (password) values (",
    '{"name": "password", ',
    "$6$a$",
]
HOSTILE += [
    "-----BEGIN PRIVATE KEY-----",
    "kind: Secret\ndata:\n",
    "password = f(",
    'password = getenv("x") or ',
    "пароль: ",
]
HOSTILE += [
    'send "',
    "vault kv put a ",
    "vault kv put a b=c ",
    "--from-literal=",
    "create secret x=",
    'type="password" value=',
    '<input type="password" ',
    "nmcli ",
    "SecureString --value ",
    "put-parameter ",
    "a_api_",
    "a-b-c-key-",
    "< private",
    "\\x41",
    "use it as the root ",
    "encrypt_string --a ",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_is_looked_through_in_time_that_grows_no_faster_than_the_text(piece: str) -> None:
    """Were any pattern quadratic, this would not end."""
    text = looked_through((piece * 200_000)[:1_000_000], 65_536)
    assert redact(redact(text)) == redact(text)
    assert redact_json(bounded({"a": [piece] * 25_000}, 65_536))


@pytest.mark.parametrize("word", sorted({*WORDS, "curl", *(word for word, _ in FOREIGN)}))
def test_no_name_is_read_more_often_than_there_is_time_for(word: str) -> None:
    text = looked_through((word + " é ") * 100_000, 65_536)
    assert text.count(word) <= 4_000
    talk = bounded({"a": [(word + " ") * 30] * 5_000}, 65_536)
    assert json.dumps(talk, ensure_ascii=False).count(word) <= 4_000


def steps(text: str) -> int:
    """How many calls it takes to look through a text."""
    counted = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        redact(text)
    finally:
        sys.setprofile(None)
    return counted


TRIGGERS = {trigger for table in RULES.values() for _, triggers, *_ in table for trigger in triggers.split("|")}
TRIGGERS |= {*WORDS, *(word for word, _ in FOREIGN)}


@pytest.mark.slow
@pytest.mark.parametrize("after", ["", " ", "=", '="a1B2c3d4e5f6"\n'])
def test_twice_the_text_takes_about_twice_the_steps_whatever_rule_it_triggers(after: str) -> None:
    worse = {}
    for trigger in sorted(TRIGGERS):
        text = (trigger + after) * (1_500 // len(trigger + after))
        few, many = steps(text), steps(text * 2)
        if many > 2.6 * few + 200:
            worse[trigger] = few, many
    assert not worse
