"""What comes over from a damaged file, by the kind of damage: all that its pages still hold, and nothing else."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from mcp_memory.domain.events import opaque
from mcp_memory.store.sqlite import aside
from mcp_memory.store.sqlite.database import Transaction
from mcp_memory.store.sqlite.diagnosis import database
from mcp_memory.store.sqlite.salvage import Salvaged
from tests.store.sqlite.damage import PAGE, Spoil, events, filled, overwrite, root_of, scatter, spoiled, value
from tests.support import memory


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return anyio.run(filled, tmp_path_factory.mktemp("original"))


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "_SETTLE_SECONDS", 0.0)


def rescue(path: Path) -> Salvaged:
    """Set the file aside; it is found as it was, and the new one is whole and private."""
    before = path.read_bytes()
    old, found = aside.set_aside(path, "UTC")
    assert old.read_bytes() == before
    assert database(path)[1] == []
    assert path.stat().st_mode & 0o077 == 0
    assert not list(path.parent.glob("*.rescue*"))
    return found


TREES = ["event", "event_time", "sqlite_autoindex_event_1", "search_data", "session", "project", "node", "inbox"]


@pytest.mark.parametrize("seed", [None, 1], ids=["zeros", "random"])
@pytest.mark.parametrize("tree", TREES)
def test_no_event_is_lost_with_the_root_of_a_tree(original: Path, tmp_path: Path, tree: str, seed: int | None) -> None:
    path = spoiled(original, overwrite(root_of(original, tree), seed), tmp_path)
    assert database(path)[1]
    found = rescue(path)
    assert events(path) == events(original)
    assert (found.events, found.lost, found.sure) == (len(events(original)), 0, True)


@pytest.mark.parametrize("length", [100, PAGE], ids=["header", "page"])
def test_no_event_is_lost_with_the_first_page(original: Path, tmp_path: Path, length: int) -> None:
    def spoil(data: bytearray) -> None:
        data[:length] = bytes(length)

    path = spoiled(original, spoil, tmp_path)
    found = rescue(path)
    assert events(path) == events(original)
    assert found.inbox == 5


@pytest.mark.parametrize("seed", range(4))
def test_of_a_file_with_holes_the_rest_comes_over_and_what_is_lost_is_counted(
    original: Path, tmp_path: Path, seed: int
) -> None:
    path = spoiled(original, scatter(seed, 0.03), tmp_path)
    found = rescue(path)
    had, has = {row[1]: row for row in events(original)}, {row[1]: row for row in events(path)}
    assert set(has) <= set(had)
    # All that an event says of itself; its session may be lost with another page.
    assert all(has[key][:10] == had[key][:10] for key in has)
    assert len(has) > 0.8 * len(had)
    assert found.events == len(has)
    assert found.lost <= len(had) - len(has)
    assert (found.lost == len(had) - len(has)) or not found.sure


def test_of_a_file_that_was_cut_off_the_rest_comes_over(original: Path, tmp_path: Path) -> None:
    def cut(data: bytearray) -> None:
        del data[len(data) * 3 // 4 :]

    path = spoiled(original, cut, tmp_path)
    found = rescue(path)
    had = {row[1]: row[:10] for row in events(original)}
    assert 0 < found.events < len(had)
    assert found.lost == len(had) - found.events
    assert all(had[row[1]] == row[:10] for row in events(path))
    assert value(path, "SELECT count(*) FROM checkpoint") == 0


@pytest.mark.parametrize(
    "data", [b"no database " * 500, random.Random(7).randbytes(300_000), b"SQLite format 3\0" + bytes(9000)]
)
def test_from_a_file_without_rows_nothing_comes_over(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "memory.db").write_bytes(data)
    found = rescue(tmp_path / "memory.db")
    assert found.nothing
    assert not found.sure


def test_pages_that_lead_in_a_circle_are_read_once(original: Path, tmp_path: Path) -> None:
    root = root_of(original, "event")

    def spoil(data: bytearray) -> None:
        page = memoryview(data)[(root - 1) * PAGE : root * PAGE]
        assert page[0] == 5
        cells = int.from_bytes(page[3:5], "big")
        for cell in range(cells):
            at = int.from_bytes(page[12 + 2 * cell : 14 + 2 * cell], "big")
            page[at : at + 4] = root.to_bytes(4, "big")
        page[8:12] = root.to_bytes(4, "big")
        page.release()

    path = spoiled(original, spoil, tmp_path)
    rescue(path)
    assert events(path) == events(original)


@pytest.mark.parametrize(
    "change",
    [
        "role = 'nobody'",
        "type = 'rumour'",
        "text = CAST(x'68656c6c6fa5' AS TEXT)",
        "key = x'00'",
        "tokens = 'many'",
        "timestamp_ms = 1 << 60",
        "source_ids = 'none'",
        "truncated = 7",
    ],
)
def test_an_event_that_cannot_be_one_is_lost_and_counted(original: Path, tmp_path: Path, change: str) -> None:
    path = spoiled(original, overwrite(root_of(original, "search_data")), tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE event SET {change} WHERE id = 7")
        connection.commit()
    found = rescue(path)
    assert [row[0] for row in events(path)] == [row[0] for row in events(original) if row[0] != 7]
    assert (found.lost, found.sure) == (1, True)


def test_what_was_forgotten_does_not_come_back(original: Path, tmp_path: Path) -> None:
    path = spoiled(original, overwrite(root_of(original, "search_data")), tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO forgotten (key) VALUES (x'00112233445566778899')")
        # As if a page of before had been found again.
        connection.execute("INSERT INTO forgotten (key) SELECT key FROM event WHERE id = 3")
        connection.execute("INSERT INTO erased (at_event, session, project, notes) VALUES (900, 1, 1, 0)")
        connection.commit()
    found = rescue(path)
    assert found.forgotten == 2
    assert 3 not in {row[0] for row in events(path)}
    assert found.damaged == ()


def test_a_list_of_the_forgotten_that_cannot_be_read_is_told(original: Path, tmp_path: Path) -> None:
    path = spoiled(original, overwrite(root_of(original, "forgotten")), tmp_path)
    assert rescue(path).damaged == ("forgotten",)


def test_what_was_deleted_is_not_found_again_on_free_pages(original: Path, tmp_path: Path) -> None:
    path = spoiled(original, lambda data: None, tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("DELETE FROM event WHERE id > 100")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"said in session 39" in path.read_bytes()
    page = root_of(path, "event_time")
    data = bytearray(path.read_bytes())
    overwrite(page)(data)
    overwrite(root_of(path, "event"))(data)
    path.write_bytes(data)
    rescue(path)
    assert len(events(path)) <= 100


def test_places_in_the_log_are_not_given_twice(original: Path, tmp_path: Path) -> None:
    path = spoiled(original, overwrite(root_of(original, "search_data")), tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE sqlite_sequence SET seq = seq + 5")
        connection.commit()
        before = dict(connection.execute("SELECT name, seq FROM sqlite_sequence"))
    rescue(path)
    with closing(sqlite3.connect(path)) as connection:
        after = dict(connection.execute("SELECT name, seq FROM sqlite_sequence"))
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize(
    ("spoil", "kept"), [(overwrite(2, None), True), (scatter(3, 0.2), False)], ids=["nothing lost", "events lost"]
)
def test_transcripts_are_read_from_their_begin_if_events_were_lost(
    original: Path, tmp_path: Path, spoil: Spoil, kept: bool
) -> None:
    path = spoiled(original, lambda data: None, tmp_path / "with")
    with closing(sqlite3.connect(path)) as connection:
        name = f"transcript:{opaque('/a')}"
        connection.execute("""INSERT INTO checkpoint (name, position) VALUES (?, '{"offset": 9}')""", (name,))
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damaged = spoiled(path, spoil, tmp_path / "damaged")
    found = rescue(damaged)
    assert (found.lost == 0) == kept
    assert (value(damaged, "SELECT count(*) FROM checkpoint") == 1) == kept


def test_the_log_beside_the_file_is_read_and_left_as_it_is(original: Path, tmp_path: Path) -> None:
    copied = spoiled(original, lambda data: None, tmp_path / "open")
    home = tmp_path / "damaged"
    with closing(sqlite3.connect(copied)) as connection:
        connection.execute("INSERT INTO inbox (received_ms, client, root, payload) VALUES (9, 'codex', '/w', '{}')")
        connection.execute("UPDATE event SET text = 'changed in the log' WHERE id = 2")
        connection.commit()
        path = spoiled(copied, overwrite(root_of(original, "event")), home)
        (home / "memory.db-wal").write_bytes((tmp_path / "open" / "memory.db-wal").read_bytes())
    log = (home / "memory.db-wal").read_bytes()
    old, found = aside.set_aside(path, "UTC")
    assert old.with_name(f"{old.name}-wal").read_bytes() == log
    assert found.inbox == 6
    assert len(events(path)) == len(events(original))
    assert value(path, "SELECT text FROM event WHERE id = 2") == "changed in the log"


def test_a_log_that_breaks_off_before_a_commit_is_told(original: Path, tmp_path: Path) -> None:
    copied = spoiled(original, lambda data: None, tmp_path / "open")
    home = tmp_path / "damaged"
    with closing(sqlite3.connect(copied)) as connection:
        for number in range(20):
            connection.execute("INSERT INTO inbox (received_ms, client, root, payload) VALUES (9, 'x', '/', '{}')")
            connection.execute("UPDATE event SET text = ? WHERE id = 2", (f"change {number}",))
            connection.commit()
        path = spoiled(copied, overwrite(root_of(original, "search_data")), home)
        log = bytearray((tmp_path / "open" / "memory.db-wal").read_bytes())
    log[len(log) // 2] ^= 1
    (home / "memory.db-wal").write_bytes(log)
    _, found = aside.set_aside(path, "UTC")
    assert found.log_cut
    assert not found.sure
    assert 5 < found.inbox < 25


@pytest.mark.anyio
@pytest.mark.parametrize("table", ["session", "project"])
async def test_events_without_a_session_or_project_are_kept(original: Path, tmp_path: Path, table: str) -> None:
    names = [table, *indexes(original, table)]

    def spoil(data: bytearray) -> None:
        for name in names:
            overwrite(root_of(original, name))(data)

    path = spoiled(original, spoil, tmp_path)
    rescue(path)
    assert [row[:10] for row in events(path)] == [row[:10] for row in events(original)]
    assert all("recovered" in row[12] for row in events(path))
    async with memory(tmp_path) as app:
        await app.pipeline.until_idle()
        assert {project.slug for project in await app.library.projects()} >= {row[12] for row in events(path)}


def indexes(path: Path, table: str) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[1] for row in connection.execute(f"PRAGMA index_list({table})")]


TREE = """
    SELECT n.id, n.level, n.key, v.id, v.version, v.title, v.keywords, v.children, v.written_by, v.weight,
           b.text, b.grips
    FROM node n JOIN node_version v ON v.node = n.id LEFT JOIN bullet b ON b.node_version = v.id
    ORDER BY v.id, b.position
"""


@pytest.mark.anyio
@pytest.mark.parametrize("tree", ["search_data", "event_time", "llm_call"])
async def test_a_tree_that_can_be_read_comes_over_with_its_history(original: Path, tmp_path: Path, tree: str) -> None:
    path = spoiled(original, lambda data: None, tmp_path / "with")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE node_version SET written_by = 'model:one', title = 'Told by a model' WHERE id = 1")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        wanted = connection.execute(TREE).fetchall()
        queue = connection.execute("SELECT * FROM dirty_session").fetchall()
    damaged = spoiled(path, overwrite(root_of(path, tree)), tmp_path / "damaged")
    assert rescue(damaged).tree
    with closing(sqlite3.connect(damaged)) as connection:
        assert connection.execute(TREE).fetchall() == wanted
        assert connection.execute("SELECT * FROM dirty_session").fetchall() == queue
    async with memory(damaged.parent) as app:
        # Every word of the index is that of the texts, or it could not be taken out again.
        await app.pipeline.until_idle()
        await app.database.write(Transaction.run, "INSERT INTO search (search) VALUES ('integrity-check')")
        hits = await app.database.value("SELECT count(*) FROM search WHERE search MATCH 'model'")
        assert hits >= 1


@pytest.mark.parametrize("tree", ["bullet", "node_version", "grip", "segment", "mention"])
def test_a_tree_with_a_hole_is_left_to_be_made_anew(original: Path, tmp_path: Path, tree: str) -> None:
    path = spoiled(original, overwrite(root_of(original, tree), 5), tmp_path)
    found = rescue(path)
    assert (found.tree, found.lost, found.damaged) == (False, 0, ())
    assert events(path) == events(original)
    assert value(path, "SELECT count(*) FROM node") == 0
    assert value(path, "SELECT count(*) FROM dirty_session") == value(original, "SELECT count(*) FROM session")


def test_a_page_of_before_is_told_by_what_it_misses(original: Path, tmp_path: Path) -> None:
    path = spoiled(original, lambda data: None, tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        before = path.read_bytes()
        connection.execute(
            "INSERT INTO event (key, session, timestamp_ms, type, role, text, tokens, truncated, source_ids, metadata) "
            "SELECT randomblob(10), session, timestamp_ms, type, role, 'late', 1, 0, '[]', '{}' FROM event WHERE id = 1"
        )
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        last = connection.execute("SELECT max(id) FROM event").fetchone()[0]
    data = bytearray(path.read_bytes())
    assert len(data) == len(before)
    for at in range(0, len(data), PAGE):
        # The page that the event was written to did not reach the disk; those of the indexes did.
        if data[at] == 0x0D and b"late" in data[at : at + PAGE]:
            data[at : at + PAGE] = before[at : at + PAGE]
    path.write_bytes(data)
    found = rescue(path)
    assert last not in {row[0] for row in events(path)}
    assert (found.lost, found.sure) == (1, True)


def test_a_chain_of_pages_that_runs_in_a_circle_is_given_up(original: Path, tmp_path: Path) -> None:
    [long] = [row for row in events(original) if len(row[5]) > PAGE]

    def spoil(data: bytearray) -> None:
        words = long[5][9000:9100].encode()
        pages = [at for at in range(0, len(data), PAGE) if data[at] == 0 and words in data[at : at + PAGE]]
        assert pages
        for at in pages:
            data[at : at + 4] = (at // PAGE + 1).to_bytes(4, "big")

    path = spoiled(original, spoil, tmp_path)
    found = rescue(path)
    assert [row[0] for row in events(path)] == [row[0] for row in events(original) if row != long]
    assert (found.lost, found.sure) == (1, True)
