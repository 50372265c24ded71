"""One measurement of `importing` in a process of its own: prints what each part took.

`start` is what does not grow with the history: our modules, their expressions, the token vocabulary, an empty database.

`ours HOME FILE…` imports and processes; `bare TEXTS DATABASE FILE…` parses the same lines and fills one FTS5 table.
"""

from __future__ import annotations

import time

STARTED = time.perf_counter()


def ours(home: str, files: list[str]) -> dict[str, float]:
    import gc
    from pathlib import Path

    from mcp_memory.surfaces.cli import OBJECTS_MADE

    gc.set_threshold(OBJECTS_MADE)  # like the command line, which also freezes what it has loaded
    import anyio

    from mcp_memory.app import open_app
    from mcp_memory.clients import detect
    from mcp_memory.clients.lines import parse
    from mcp_memory.config import Calendar, Settings
    from mcp_memory.lexicon import Expression
    from mcp_memory.models import tokens
    from mcp_memory.pipeline.importing import import_files
    from mcp_memory.summaries import extractive, facets, rollups  # noqa: F401

    # What the first line and the first summaries would load and compile belongs to the start.
    parse(b"{}")
    for found in gc.get_objects():
        if isinstance(found, Expression):
            found.search("")
    marks: dict[str, float] = {}

    async def work() -> None:
        async with open_app(Settings(home=Path(home), calendar=Calendar("UTC")), cwd=Path(home)) as app:
            tokens.count("vocabulary")
            gc.freeze()
            marks["start"] = time.perf_counter()
            sources = [(adapter, Path(name)) for name in files if (adapter := detect(Path(name)))]
            await import_files(app.store, app.inbox, sources, app.intaker)
            marks["import"] = time.perf_counter()
            await app.pipeline.until_idle()
            marks["process"] = time.perf_counter()

    anyio.run(work)
    parts, last = {}, STARTED
    for name, moment in marks.items():
        parts[name], last = moment - last, moment
    return parts


def bare(texts: str, database: str, files: list[str]) -> dict[str, float]:
    import json
    import sqlite3

    started = time.perf_counter()
    with open(texts, encoding="utf-8") as file:
        rows = [(text,) for text in json.load(file)]
    # Having the texts at hand is a gift to the baseline, so getting them is not counted.
    gift = time.perf_counter() - started
    for name in files:
        with open(name, "rb") as lines:
            for line in lines:
                try:
                    json.loads(line)
                except ValueError:
                    continue
    parsed = time.perf_counter()
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize = 'porter unicode61')")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO t VALUES (?)", rows)
    connection.execute("COMMIT")
    return {"parse": parsed - STARTED - gift, "insert": time.perf_counter() - parsed}


if __name__ == "__main__":
    import json
    import sys

    kind, *given = sys.argv[1:]
    parts = ours(given[0], given[1:]) if kind == "ours" else bare(given[0], given[1], given[2:])
    sys.stdout.write(json.dumps(parts))
