"""Old history into a built tree, against parsing the same lines and putting the same texts into a bare FTS5 table."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from bench.measure import SHARED, Figure, against, interleaved, median, ms
from bench.processes import python
from mcp_memory import sample

ROUNDS = 7
#: How often the bundled sample is told, with new session ids, where there are no transcripts.
REPEATED = 20


def run(scratch: Path, *, large: bool) -> list[Figure]:
    files = transcripts() or [repeated_sample(scratch / "sample.jsonl")]
    texts, home, table = scratch / "texts.json", scratch / "imported", scratch / "bare.db"
    _worker("ours", home, files, home=home)
    texts.write_text(json.dumps(_texts(home / "memory.db")), "utf-8")
    parts: dict[str, list[float]] = {}

    def ours() -> float:
        shutil.rmtree(home)
        return _keep(parts, _worker("ours", home, files, home=home))

    def bare() -> float:
        table.unlink(missing_ok=True)
        return _keep(parts, _worker("bare", texts, [table, *files], home=home))

    taken = interleaved(ROUNDS, {"bare": bare, "ours": ours})
    for name, seconds in parts.items():
        print(f"   {name:<8} {ms(median(seconds))}")
    work = [whole - start for whole, start in zip(taken["ours"], parts["start"][-ROUNDS:], strict=True)]
    size = sum(path.stat().st_size for path in files)
    source = f"{len(files)} transcripts" if transcripts() else f"the sample told {REPEATED} times"
    return [
        against(f"import and process, {source}, {size / 1e6:.1f} MB", work, taken["bare"], 4.0),
        against("the same with loading modules, vocabulary and an empty database", taken["ours"], taken["bare"]),
    ]


def transcripts() -> list[Path]:
    return sorted((SHARED / "transcripts").glob("*.jsonl"))


def repeated_sample(path: Path) -> Path:
    with path.open("w", encoding="utf-8") as file:
        for number in range(REPEATED):
            for line in sample.lines():
                new = {name: f"{line[name]}-{number}" for name in ("session_id", "source_id")}
                file.write(json.dumps(line | new, ensure_ascii=False) + "\n")
    return path


def _texts(database: Path) -> list[str]:
    connection = sqlite3.connect(database)
    try:
        return [text for (text,) in connection.execute("SELECT text FROM event ORDER BY id")]
    finally:
        connection.close()


def _worker(kind: str, first: Path, rest: Iterable[Path], *, home: Path) -> dict[str, float]:
    arguments = [str(path) for path in (first, *rest)]
    told: dict[str, float] = json.loads(python("-m", "bench.import_worker", kind, *arguments, home=home))
    return told


def _keep(parts: dict[str, list[float]], told: dict[str, float]) -> float:
    for name, seconds in told.items():
        parts.setdefault(name, []).append(seconds)
    return sum(told.values())
