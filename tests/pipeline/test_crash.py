"""Killed between any two writes, the pipeline loses nothing and doubles nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import REPO

DRIVER = """
import json, os, sys
from pathlib import Path
import anyio
from mcp_memory.adapters.sqlite.database import Database, Transaction
from tests.support import all_nodes, conversation, memory, tell, said

root = Path(sys.argv[1])
lines = [*conversation("2026-03-02"), *conversation("2026-03-03", session="s2"),
         said("Late word on the login timeout.", "2026-03-02T09:05:50Z")]

def die_at(number):
    left = [number]
    def tick():
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)
    def wrap(owner, name):
        original = getattr(owner, name)
        def counted(self, *args):
            tick()
            return original(self, *args)
        setattr(owner, name, counted)
    for owner, name in ((Transaction, "run"), (Transaction, "run_many"), (Database, "_commit")):
        wrap(owner, name)

async def work(home):
    async with memory(home) as app:
        await tell(app, lines[:8])
        await app.pipeline.until_idle()
        await tell(app, lines[8:])
        await app.pipeline.until_idle()

async def state(home):
    async with memory(home) as app:
        events = await app.database.fetch("SELECT hex(key), timestamp_ms, text FROM event ORDER BY key")
        nodes = [(n.node_id, n.title, [b.text for b in n.bullets], [b.grip_ids for b in n.bullets], n.keywords)
                 for n in await all_nodes(app)]
        live = await app.database.fetch("SELECT hex(key), excerpt FROM grip WHERE live = 1 ORDER BY key")
        docs = await app.database.fetch("SELECT count(*) FROM search WHERE search MATCH 'login'")
        await app.database.fetch("SELECT 1")
        check = await app.database.value("PRAGMA integrity_check")
        await app.database.write(Transaction.run, "INSERT INTO search (search) VALUES ('integrity-check')")
        return [events, nodes, live, docs, check]

def child(home, number):
    pid = os.fork()
    if pid == 0:
        if number is not None:
            die_at(number)
        anyio.run(work, home)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def look(home):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        anyio.run(work, home)
        with os.fdopen(write, "w") as out:
            out.write(json.dumps(anyio.run(state, home)))
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as source:
        text = source.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return json.loads(text)

clean = root / "clean"
assert child(clean, None) == 0
wanted = look(clean)
killed = different = 0
number = 0
while True:
    home = root / f"killed-{number}"
    code = child(home, number)
    if code == 0:
        break
    assert code == 9, code
    killed += 1
    found = look(home)
    if found != wanted:
        different += 1
        print("differs when killed at write", number, file=sys.stderr)
    number += 1 if number < 12 else 7
print(json.dumps({"killed": killed, "different": different, "nodes": len(wanted[1]), "events": len(wanted[0])}))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_a_kill_at_any_write_loses_and_doubles_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DRIVER, str(tmp_path)],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["killed"] > 20
    assert found["different"] == 0, done.stderr[-2000:]
    assert found["events"] == 17
