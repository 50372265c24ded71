"""Summaries of texts: as deep as the text is long, and never paid for twice."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mcp_memory.domain.nodes import Depth
from mcp_memory.errors import ContextTooLong
from mcp_memory.models.summarizer import prose_writer
from mcp_memory.models.tokens import TextSummary, count, summarize_text, write_extract
from tests.models.asking import Asking, asking
from tests.models.scripted import Asked, Http, Said, honest

pytestmark = pytest.mark.anyio


class Noting:
    """Writes the first words of what it is given, and notes how it was asked."""

    def __init__(self, too_long: int = 1 << 30) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.contents: list[str] = []
        self.too_long = too_long

    async def write(self, content: str, length: str, content_type: str, prior: str) -> tuple[str, str]:
        if count(content) > self.too_long:
            raise ContextTooLong("too long")
        self.asked.append((length, content_type, prior))
        self.contents.append(content)
        return f"{prior} " + " ".join(content.split()[:20]), "noting"

    def lengths(self) -> dict[str, int]:
        names = [length for length, _, _ in self.asked]
        return {name: names.count(name) for name in dict.fromkeys(names)}


def text_of(tokens: int, subject: str = "gateway") -> str:
    blocks: list[str] = []
    while count("\n\n".join(blocks)) < tokens:
        at = len(blocks)
        blocks.append(" ".join(f"Point {at}.{n} says that the {subject} has {at * 31 + n} routes." for n in range(12)))
    return "\n\n".join(blocks)


async def summarized(tokens: int, writer: Noting, prior: str = "") -> TextSummary:
    return await summarize_text(writer.write, text_of(tokens), prior, "document")


@pytest.mark.parametrize("text", ["", "   \n\t ", "Too short to be worth it."])
async def test_little_text_gives_no_summary(text: str) -> None:
    result = await summarize_text(Noting().write, text)
    assert (result.metrics.depth, result.text, result.metrics.compression_ratio) == (Depth.NONE, None, 1.0)


@pytest.mark.parametrize(("tokens", "level"), [(150, Depth.BRIEF), (900, Depth.STANDARD)])
async def test_a_short_text_takes_one_question(tokens: int, level: Depth) -> None:
    writer = Noting()
    result = await summarized(tokens, writer, "Before.")
    assert result.metrics.depth is level
    assert writer.asked == [(level.value, "document", "Before.")]
    assert result.layers is None
    assert result.metrics.output_tokens == count(result.text or "")
    assert result.metrics.compression_ratio == round(result.metrics.output_tokens / result.metrics.input_tokens, 4)


async def test_a_long_text_is_summarized_in_chunks_and_then_as_a_whole() -> None:
    writer = Noting()
    result = await summarized(8_000, writer, "Before.")
    assert result.metrics.depth is Depth.DETAILED
    tree = result.layers
    assert tree is not None
    assert writer.lengths() == {"section": len(tree["l1_summaries"]), "merge": 1}
    assert 3 <= len(tree["l1_summaries"]) <= 4
    assert tree["l2_summaries"] == []
    assert result.text == tree["l3_summary"]
    assert all(chunk["source_tokens"] <= 3_000 and chunk["parent_group"] is None for chunk in tree["l1_summaries"])
    assert [prior for length, _, prior in writer.asked if length == "section"] == [""] * len(tree["l1_summaries"])
    assert writer.asked[-1] == ("merge", "document", "Before.")


async def test_a_very_long_text_is_summarized_in_three_layers() -> None:
    writer = Noting()
    result = await summarized(32_000, writer)
    assert result.metrics.depth is Depth.HIERARCHICAL
    tree = result.layers
    assert tree is not None
    chunks = len(tree["l1_summaries"])
    assert chunks >= 11
    assert len(tree["l2_summaries"]) == -(-chunks // 5)
    assert writer.lengths() == {"section": chunks, "merge": len(tree["l2_summaries"]) + 1}
    assert {chunk["parent_group"] for chunk in tree["l1_summaries"]} == set(range(len(tree["l2_summaries"])))
    assert 0 < result.metrics.compression_ratio < 0.05


async def test_what_is_too_long_for_the_model_goes_one_depth_deeper() -> None:
    writer = Noting(too_long=1_000)
    result = await summarized(2_500, writer)
    assert result.metrics.depth is Depth.HIERARCHICAL
    assert result.layers is not None
    assert result.layers["chunk_size"] <= 1_000
    with pytest.raises(ContextTooLong):
        await summarized(2_500, Noting(too_long=50))


async def test_only_changed_chunks_are_asked_for_again(tmp_path: Path) -> None:
    text = text_of(14_000)
    async with asking(tmp_path, "openai", honest) as at:
        write = prose_writer(at.caller)
        await summarize_text(write, text)
        first = len(at.model.asked)
        assert first >= 6
        await summarize_text(write, text)
        assert len(at.model.asked) == first
        await summarize_text(write, text.replace("Point 20.5", "Point 20.five"))
        assert 1 <= len(at.model.asked) - first <= 4


async def test_chunks_are_asked_for_side_by_side_but_not_more_than_allowed(tmp_path: Path) -> None:
    lock, now, most, first = threading.Lock(), 0, 0, [True, True]
    two = threading.Barrier(2, timeout=20)

    def watched(asked: Asked) -> object:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
            waits = bool(first and first.pop())
        if waits:  # the first two answers come only when both were asked for
            two.wait()
        with lock:
            now -= 1
        return honest(asked)

    async with asking(tmp_path, "openai", watched, concurrency=2) as at:
        result = await summarize_text(prose_writer(at.caller), text_of(10_500))
    assert result.layers is not None
    assert len(result.layers["l1_summaries"]) >= 4
    assert most == 2


async def test_a_term_from_early_on_is_still_there_after_three_rolling_updates(tmp_path: Path) -> None:
    async def roll(at: Asking) -> str:
        write = prose_writer(at.caller)
        summary = (await summarize_text(write, "The gateway is called Zorvan-7. " + text_of(600))).text or ""
        for subject in ("cache", "queue", "index"):
            summary = (await summarize_text(write, text_of(600, subject), summary, "conversation")).text or ""
        return summary

    async with asking(tmp_path, "anthropic", honest) as at:
        summary = await roll(at)
        passed = [asked for asked in at.model.asked if "Zorvan-7" in asked.earlier]
    assert "Zorvan-7" in summary
    assert len(passed) == 3


async def test_the_same_works_without_a_model() -> None:
    summary = ""
    for number, subject in enumerate(("gateway", "cache", "queue", "index")):
        lead = "We decided to call the gateway Zorvan-7 because the old name was taken. " if not number else ""
        result = await summarize_text(write_extract, lead + text_of(600, subject), summary, "conversation")
        summary = result.text or ""
        assert summary
        assert result.metrics.depth is Depth.STANDARD
    assert "Zorvan-7" in summary
    assert "index" in summary


@pytest.mark.parametrize("tokens", [6_000, 40_000])
async def test_an_endless_word_is_summarized_without_the_labels_of_its_parts(tokens: int) -> None:
    result = await summarize_text(write_extract, "qx7" * tokens)
    assert result.layers
    assert result.text
    assert "Section" not in result.text
    assert result.text.startswith("qx7")


async def test_a_failing_chunk_does_not_throw_away_the_others(tmp_path: Path) -> None:
    def half(asked: Asked) -> object:
        return Http(422, "no") if "Point 3.0 " in asked.prompt else honest(asked)

    text = text_of(10_000)
    async with asking(tmp_path, "openai", half) as at:
        write = prose_writer(at.caller)
        with pytest.raises(Exception, match="refused"):
            await summarize_text(write, text)
        kept = await at.database.value("SELECT count(*) FROM llm_answer")
        assert kept >= 2
        at.model.respond = honest
        before = len(at.model.asked)
        assert (await summarize_text(write, text)).text
        assert len(at.model.asked) - before <= 3


async def test_a_plain_answer_is_prose(tmp_path: Path) -> None:
    async with asking(tmp_path, "openai", lambda asked: Said("It has  routes.\n\nMany.<|im_end|>")) as at:
        result = await summarize_text(prose_writer(at.caller), text_of(200))
    assert result.text == "It has routes.\n\nMany."


def test_what_needs_no_model_does_not_wait_for_what_models_need() -> None:
    code = "import sys, mcp_memory.app, mcp_memory.models.tokens; print({'pydantic', 'openai'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
