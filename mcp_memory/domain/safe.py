"""Recalled text is data: what is shown to a model is stripped of what could pose as something else."""

from __future__ import annotations

import re

#: Control characters but newline and tab, bidirectional overrides, zero-width and tag characters.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")
#: Tags by which clients mark their own words, and the fences of ours.
_POSING = re.compile(
    r"<(/?)\s*(system-reminder|system|hook_context|memory|recalled|function_(?:calls?|results?)|invoke|"
    r"parameter|tool_(?:use|calls?|results?)|environment_context|user_instructions|task-notification|"
    r"user-prompt-submit-hook|command-[a-z]+|local-command-[a-z]+|antml:[a-z_]+|user|assistant|human)\b",
    re.I,
)
#: Words by which open models mark whose turn it is, such as `<|im_start|>`; some programs read them anywhere.
_TURNS = re.compile(r"<\|(?=\w{2,40}\|>)")
_EMPTY_LINES = re.compile(r"[ \t]*\n(?:[ \t]*\n)+")
_SPACE = re.compile(r"\s+")


def clean(text: str) -> str:
    """The text without hidden characters; tags that pose as the client's own are made harmless."""
    return _TURNS.sub("‹|", _POSING.sub(r"‹\1\2", _HIDDEN.sub("", text)))


def squeezed(text: str) -> str:
    """The text without empty lines, which say nothing and cost as much as a word."""
    return _EMPTY_LINES.sub("\n", text)


def safe(text: str, limit: int = 0) -> str:
    """The cleaned text on one line, cut at a word if it is longer than the limit."""
    line = _SPACE.sub(" ", clean(text)).strip()
    if not limit or len(line) <= limit:
        return line
    cut = line[: limit - 1]
    head, _, _ = cut.rpartition(" ")
    return (head if len(head) > limit // 2 else cut).rstrip(" ,;:") + "…"
