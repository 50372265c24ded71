"""How the same questions fare as a memory grows: more sessions of the project, other topics, and years of history.

The questions are those about real coding sessions, over all projects. The history around them is invented, so it only
adds what a search must pass over. The data lies beside the repository; without it there is nothing to do.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import anyio

from bench.histories import add_invented, build, opened
from bench.measure import Figure, median, ms, p95
from bench.recall import (
    CODING,
    LOCOMO,
    LONGMEMEVAL,
    MORE_CODING,
    TRIES,
    Corpus,
    evidence_of,
    fill,
    filled,
    found_in,
    found_shares,
    named,
    set_of,
)
from mcp_memory.search.question import question_of

SPECSTORY = Corpus("cursor", "specstory")
SESSIONS = (CODING, MORE_CODING)
#: What is in each memory, and how many events in all, as far as history is invented around it.
STORES: tuple[tuple[str, tuple[Corpus, ...], int], ...] = (
    ("20 sessions", (CODING,), 0),
    ("54 sessions", SESSIONS, 0),
    ("all corpora", (*SESSIONS, LOCOMO, LONGMEMEVAL, SPECSTORY), 0),
    ("100,000 events", SESSIONS, 100_000),
)
LARGE = ("1,000,000 events", SESSIONS, 1_000_000)
SHOWN = ("hit@1", "hit@5", "hit@10")
#: So much of hit@5 over the 54 sessions may be lost in a larger memory.
LOST = 0.03


def run(scratch: Path, *, large: bool) -> list[Figure]:
    if not all(set_of(name).at_hand() for name in ("recall", "LoCoMo", "LongMemEval")):
        return []
    print(f"   {'memory':<20}{'events':>10}" + "".join(f"{key:>8}" for key in SHOWN) + f"{'p50':>10}{'p95':>10}")
    figures, least = list[Figure](), 0.0
    for label, corpora, events in (*STORES, LARGE) if large else STORES:
        many, shares, seconds = anyio.run(_measure, scratch, corpora, events)
        row = "".join(f"{shares[key]:>8.3f}" for key in SHOWN) + "".join(
            f"{ms(of(seconds)):>10}" for of in (median, p95)
        )
        print(f"   {label:<20}{many:>10,}{row}", flush=True)
        note = f"p50 {ms(median(seconds))}, p95 {ms(p95(seconds))}" + (f"; aim ≥ {least:.3f}" if least else "")
        if label == "54 sessions":
            least = shares["hit@5"] - LOST
        figures.append(Figure(f"hit@5 in {label}", shares["hit@5"], unit="", note=note))
    return figures


async def _measure(
    scratch: Path, corpora: Sequence[Corpus], events: int
) -> tuple[int, dict[str, float], Sequence[float]]:
    """The events of a memory, the shares of the questions that find their evidence there, and their seconds."""
    home = scratch / f"growth-{len(corpora)}-{events}"
    if events and not home.exists():
        await _grow(home, corpora, events)
    found, seconds = [], []
    async with filled(home, () if events else corpora) as app:
        for question in set_of("recall").asked():
            taken = []
            for _ in range(TRIES):
                question_of.cache_clear()
                started = time.perf_counter()
                results, _ = await app.answers.search(question["question"], "*")
                taken.append(time.perf_counter() - started)
            found.append(found_in(evidence_of(question), [named(hit) for hit in results.hits]))
            seconds.append(min(taken))
        status = await app.store.counts()
    return status.events, found_shares(found), seconds


async def _grow(home: Path, corpora: Sequence[Corpus], events: int) -> None:
    """A memory of the corpora and as much invented history as is wanted in all."""
    # Under another name until it is complete, since one that is kept is used again.
    unfinished = home.with_name(f"{home.name}-unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    async with opened(unfinished) as app:
        await fill(app, corpora)
        await add_invented(app, events - (await app.store.counts()).events)
        await build(app)
    unfinished.rename(home)
