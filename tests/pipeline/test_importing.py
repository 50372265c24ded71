"""Import: every file, every good line, once; what cannot be read is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.clients import CLIENTS, jsonl
from mcp_memory.clients.port import BadLine, Folders, TranscriptState
from mcp_memory.domain.events import Captured
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.toc import Level
from mcp_memory.errors import StoreError
from mcp_memory.pipeline.importing import Imported, import_files
from mcp_memory.pipeline.ingest import PORTION
from mcp_memory.store.sql.database import Transaction
from mcp_memory.surfaces.import_command import find_sources, laid_out
from tests.support import LATER, SHARED, all_nodes, conversation, database_of, memory, said

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("engine")]


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


async def load(app: App, *paths: Path, **options: Any) -> Imported:
    return await import_files(
        app.store, app.inbox, [(CLIENTS["jsonl"], path) for path in paths], app.intaker, **options
    )


async def test_a_second_import_adds_nothing_and_still_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", conversation())
    async with memory(tmp_path / "home") as app:
        first, second = await load(app, path), await load(app, path)
    assert (first.events_new, first.events_known) == (8, 0)
    assert (second.events_new, second.events_known) == (0, 8)


async def test_a_file_that_ends_with_a_batch_is_counted_right_again(tmp_path: Path) -> None:
    lines = [
        said(f"Fix item {number}.", f"2026-03-02T10:{number % 60:02}:{number // 60:02}Z") for number in range(PORTION)
    ]
    path = write(tmp_path / "a.jsonl", lines)
    async with memory(tmp_path / "home") as app:
        await load(app, path)
        second = await load(app, path)
    assert (second.events_new, second.events_known) == (0, PORTION)


async def test_a_grown_file_is_read_from_where_it_was_left(tmp_path: Path) -> None:
    lines = conversation()
    path = write(tmp_path / "a.jsonl", lines[:5])
    async with memory(tmp_path / "home") as app:
        await load(app, path)
        write(path, lines)
        result = await load(app, path)
    assert (result.events_new, result.events_known) == (3, 5)


async def test_a_copy_of_a_file_adds_nothing(tmp_path: Path) -> None:
    one, two = (write(tmp_path / name, conversation()) for name in ("a.jsonl", "b.jsonl"))
    async with memory(tmp_path / "home") as app:
        result = await load(app, one, two)
    assert (result.files, result.events_new, result.events_known) == (2, 8, 8)


async def test_a_line_nested_too_deeply_is_told_and_the_others_kept(tmp_path: Path) -> None:
    deep: Any = {}
    for _ in range(900):
        deep = {"in": deep}
    one, two, three = conversation()[:3]
    path = write(tmp_path / "a.jsonl", [one, {**two, "metadata": deep}, {**three, "metadata": {"a": [{"b": 1}]}}])
    async with memory(tmp_path / "home") as app:
        result = await load(app, path)
    assert result.events_new == 2
    assert [(bad.line, bad.reason) for bad in result.skipped] == [(2, "nested too deeply")]


async def test_a_fault_of_the_store_comes_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", conversation())
    async with memory(tmp_path / "home") as app:
        await database_of(app).write(Transaction.run, "DROP TABLE event")
        with pytest.raises(StoreError, match="no such table|does not exist"):
            await load(app, path)


async def test_bad_lines_are_told_and_the_good_ones_kept(tmp_path: Path) -> None:
    good = conversation()[0]
    bad: list[Any] = ["{oops", [], {**good, "role": "king"}, {**good, "timestamp": "yesterday"}, {"role": "user"}]
    path = write(tmp_path / "a.jsonl", [*bad, good])
    async with memory(tmp_path / "home") as app:
        result = await load(app, path)
    assert result.events_new == 1
    assert [line.line for line in result.skipped] == [1, 2, 3, 4, 5]
    assert all(line.path == str(path) and line.reason for line in result.skipped)


async def test_a_dry_run_counts_and_stores_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", conversation())
    async with memory(tmp_path / "home") as app:
        result = await load(app, path, dry_run=True)
        assert (await app.store.counts()).events == 0
    assert result.events_new == 8
    assert result.months == {"2026-03": 8}
    assert result.projects == {"alpha": 8}


async def both(app: App, *paths: Path, **options: Any) -> tuple[Imported, Imported]:
    """What a dry run promises, and what the import then does."""
    return await load(app, *paths, dry_run=True, **options), await load(app, *paths, **options)


def counts(result: Imported) -> tuple[int, int, int, list[BadLine]]:
    return result.files, result.events_new, result.events_known, result.skipped


async def test_a_dry_run_promises_what_the_import_does(tmp_path: Path) -> None:
    lines = conversation()
    many = [said(f"Item {n}.", f"2026-04-02T10:{n % 60:02}:{n // 60:02}Z", session="s2") for n in range(2 * PORTION)]
    files = [
        write(tmp_path / "a.jsonl", [*lines[:5], "{oops", lines[0]]),
        write(tmp_path / "b.jsonl", [*lines[3:], *many]),
        write(tmp_path / "c.jsonl", many[PORTION - 5 :]),
    ]
    async with memory(tmp_path / "home") as app:
        first, then = await both(app, *files)
        assert counts(first) == counts(then)
        assert then.events_new == len(lines) + len(many)
        assert first.months == {"2026-03": len(lines), "2026-04": len(many)}
        again, then = await both(app, *files)
        assert counts(again) == counts(then)
        assert (then.events_new, again.projects) == (0, {})
        write(files[0], [*lines[:5], "{oops", lines[0], said("One more.", "2026-05-01T10:00:00Z")])
        grown, then = await both(app, *files, write(tmp_path / "d.jsonl", many))
        assert counts(grown) == counts(then)
        assert then.events_new == 1
        assert grown.months == {"2026-05": 1}


async def test_a_dry_run_tells_the_project_that_a_known_session_stays_in(tmp_path: Path) -> None:
    async with memory(tmp_path / "home") as app:
        await load(app, write(tmp_path / "a.jsonl", conversation()))
        more = [said("One more.", "2026-05-01T10:00:00Z"), said("Another.", "2026-05-01T10:00:00Z", session="new")]
        first, _ = await both(app, write(tmp_path / "b.jsonl", more), project="beta")
        assert first.projects == {"alpha": 1, "beta": 1}
        stored = {info.slug: info.events for info in await app.store.projects()}
        assert stored == {"alpha": len(conversation()) + 1, "beta": 1}


async def test_a_dry_run_knows_what_was_forgotten_and_what_was_captured_live(tmp_path: Path) -> None:
    def told(text: str, second: int, via: str, session: str = "s") -> dict[str, Any]:
        line = said(text, f"2026-03-02T09:00:{second:02}Z", session=session, metadata={"via": via})
        return line | {"source_id": f"{via}-{second}"}

    live = write(tmp_path / "live.jsonl", [told("Count the pears", 1, "hook"), told("And the figs", 2, "hook")])
    twins = [told("Count  the pears", 9, "transcript"), told("And the figs", 50, "transcript")]
    more = [told("Now the plums", 51, "transcript"), told("Now the plums", 55, "hook"), told("Figs", 1, "hook", "t")]
    both_ways = write(tmp_path / "both.jsonl", [*twins, *more])
    async with memory(tmp_path / "home") as app:
        promised, done = await both(app, live, both_ways)
        assert counts(promised) == counts(done)
        assert done.events_new == 4
    async with memory(tmp_path / "other") as app:
        await load(app, live)
        await database_of(app).write(
            Transaction.run, "INSERT INTO forgotten (key) SELECT key FROM event WHERE text = 'And the figs'"
        )
        await database_of(app).write(Transaction.run, "DELETE FROM event WHERE text = 'And the figs'")
        promised, done = await both(app, write(tmp_path / "copy.jsonl", json_lines(live)), both_ways)
        assert counts(promised) == counts(done)


def call(text: str, via: str, second: int = 1, **fields: Any) -> dict[str, Any]:
    line = said(text, f"2026-03-02T09:00:{second:02}Z", role="tool", metadata={"via": via}, **fields)
    return line | {"source_id": f"{via}-{text}"}


async def test_an_export_tells_of_tools_only_where_no_other_source_did(tmp_path: Path) -> None:
    stop = {"event_type": "assistant_stop", "metadata": {"via": "export"}}
    exported = [call("Bash: dig\ndeep", "export"), call("Bash: mend\nok", "export", 30), call("x", "export", 40) | stop]
    other = write(tmp_path / "other.jsonl", [line | {"session_id": "other"} for line in exported])
    for source in ("hook", "transcript"):
        async with memory(tmp_path / source) as app:
            own = write(tmp_path / f"{source}.jsonl", [call("Bash: dig\n2 ft", source)])
            files = (
                own,
                write(tmp_path / f"{source}-export.jsonl", [*exported, said("Thanks.", "2026-03-02T09:01:00Z")]),
            )
            promised, done = await both(app, *files, other)
            assert counts(promised) == counts(done)
            assert done.events_new == len([own, "Thanks.", *exported])
            again, done = await both(app, *(write(tmp_path / f"{path.name}-copy", json_lines(path)) for path in files))
            assert counts(again) == counts(done)
            assert done.events_new == 0


async def test_a_call_that_an_export_told_is_not_told_again_by_its_transcript(tmp_path: Path) -> None:
    exported = write(tmp_path / "export.jsonl", [call("Bash: dig\ndeep", "export")])
    own = [call("Bash: dig\n2 ft", "transcript", 50), call("Bash: mend\nok", "transcript", 51)]
    async with memory(tmp_path / "home") as app:
        promised, done = await both(app, exported, write(tmp_path / "own.jsonl", own))
        assert counts(promised) == counts(done)
        assert done.events_new == 2


@pytest.mark.parametrize(("first", "then"), [("hook", "export"), ("export", "transcript")])
async def test_a_call_that_was_forgotten_does_not_come_back_in_other_words(
    tmp_path: Path, first: str, then: str
) -> None:
    async with memory(tmp_path / "home") as app:
        await load(app, write(tmp_path / "a.jsonl", [call("Bash: dig\nburied gold", first)]))
        await app.store.forget(ForgetRequest(match="buried gold"), dry_run=False)
        again = await load(app, write(tmp_path / "b.jsonl", [call("Bash: dig\ngold", then, 9)]))
        assert again.events_new == 0
        assert (await load(app, write(tmp_path / "c.jsonl", [call("Bash: mend\ngold", then, 9)]))).events_new == 1


def json_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Stumbling:
    """A reader with a bug that a certain line brings out."""

    def read(self, path: Path, state: TranscriptState) -> Iterator[Captured | BadLine]:
        for item in jsonl.read(path, state):
            if isinstance(item, Captured) and "stumble" in item.text:
                raise ZeroDivisionError("division by zero")
            yield item


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_reader_that_fails_sets_its_file_aside_and_the_others_are_read(tmp_path: Path, dry_run: bool) -> None:
    lines = conversation()
    bad = write(tmp_path / "a.jsonl", [*lines[:3], {**lines[3], "text": "Here they stumble."}, *lines[4:]])
    good = write(tmp_path / "b.jsonl", [said("Fix the gate.", "2026-04-02T10:00:00Z")])
    sources: list[Any] = [(Stumbling(), bad), (Stumbling(), good)]
    async with memory(tmp_path / "home") as app:
        result = await import_files(app.store, app.inbox, sources, app.intaker, dry_run=dry_run)
        assert result.events_new == 4
        assert [(told.path, told.line) for told in result.skipped] == [(str(bad), 4)]
        assert result.skipped[0].reason.startswith("its reader failed (ZeroDivisionError in test_importing.py")
        if not dry_run:  # once the reader is mended, the rest of the file comes
            assert (await load(app, bad)).events_new == 5


async def test_files_of_one_name_in_two_directories_are_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with memory(tmp_path / "home") as app:
        for folder, session in (("one", "s1"), ("two", "s2")):
            (tmp_path / folder).mkdir()
            monkeypatch.chdir(tmp_path / folder)
            write(Path("a.jsonl"), conversation(session=session))
            assert (await load(app, Path("a.jsonl"))).events_new == 8


DATA = SHARED / "data"
#: Of the two in our own format the shorter one.
CORPORA = [path for path in sorted(DATA.glob("*/")) if path.name != "longmemeval"]


@pytest.mark.slow
@pytest.mark.skipif(not CORPORA, reason="the shared data is not here")
async def test_of_every_corpus_a_dry_run_promises_what_comes(tmp_path: Path) -> None:
    async with memory(tmp_path / "home") as app:
        for corpus in CORPORA:
            with laid_out([str(corpus)]) as (paths, files):
                sources, _ = find_sources(Folders(tmp_path), paths, "auto", files)
            results = [
                await import_files(app.store, app.inbox, sources, app.intaker, dry_run=dry) for dry in (True, False) * 2
            ]
            assert [counts(result) for result in results[::2]] == [counts(result) for result in results[1::2]], corpus
            assert results[2].events_new == 0, corpus
            assert bool(sources) == bool(results[1].events_new), corpus


async def test_everything_can_be_put_into_one_project(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", conversation())
    async with memory(tmp_path / "home") as app:
        await load(app, path, project="orchard")
        assert [info.slug for info in await app.store.projects()] == ["orchard"]


async def test_a_project_that_opted_out_is_not_imported(tmp_path: Path) -> None:
    project = tmp_path / "secretive"
    project.mkdir()
    (project / ".mcp-memory.toml").write_text("enabled = false\n")
    line = {
        "type": "user",
        "uuid": "u1",
        "sessionId": "s",
        "timestamp": "2026-03-02T09:00:00Z",
        "cwd": str(project),
        "message": {"role": "user", "content": "Keep this to yourself."},
    }
    path = write(tmp_path / "a.jsonl", [line])
    async with memory(tmp_path / "home") as app:
        result = await import_files(app.store, app.inbox, [(CLIENTS["claude-code"], path)], app.intaker)
    assert (result.events_new, result.events_known) == (0, 0)


async def test_progress_grows_to_the_whole_size(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", conversation())
    seen: list[tuple[int, int]] = []
    async with memory(tmp_path / "home") as app:
        await load(app, path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
    assert seen == sorted(seen)


async def test_a_file_that_vanished_is_told(tmp_path: Path) -> None:
    async with memory(tmp_path / "home") as app:
        result = await load(app, tmp_path / "gone.jsonl")
    assert result.events_new == 0


@pytest.mark.skipif(not (SHARED / "data" / "transcripts").is_dir(), reason="the shared transcripts are not here")
async def test_all_real_transcripts_are_imported_processed_and_navigable(tmp_path: Path) -> None:
    adapter = CLIENTS["claude-code"]
    paths = list(adapter.transcripts([SHARED / "data" / "transcripts"]))
    async with memory(tmp_path / "home") as app:
        result = await import_files(
            app.store, app.inbox, [(adapter, path) for path in paths], app.intaker, project="cli"
        )
        again = await import_files(
            app.store, app.inbox, [(adapter, path) for path in paths], app.intaker, project="cli"
        )
        await app.pipeline.until_idle()
        nodes = await all_nodes(app)
        days = [node for node in nodes if node.level is Level.DAY]
        for node in days:
            page = await app.answers.get_node(node.node_id, "cli", None, 600, None)
            assert page.tokens <= 600
            assert page.shown
    assert len(paths) == 20
    assert not result.skipped
    assert result.events_new > 1_300
    assert again.events_new == 0
    assert len(days) > 10
    assert all(bullet.grip_ids for node in nodes for bullet in node.bullets)


@pytest.mark.parametrize("rest", ['{"session_id": "s1", "tim', "just words", "ÿþ{"])
async def test_an_unfinished_last_line_is_told_and_read_when_it_is_whole(tmp_path: Path, rest: str) -> None:
    lines = conversation()[:2]
    path = write(tmp_path / "a.jsonl", lines[:1])
    whole = path.read_text()
    path.write_text(whole + rest)
    async with memory(tmp_path / "home") as app:
        first = await load(app, path)
        write(path, lines)
        second = await load(app, path)
    assert first.events_new == 1
    assert [(bad.line, bad.reason) for bad in first.skipped] == [(2, "the last line is incomplete or not JSON")]
    assert (second.events_new, second.events_known, second.skipped) == (1, 1, [])


async def test_blank_ends_are_nothing_to_tell(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", conversation())
    path.write_text(path.read_text() + "  ")
    async with memory(tmp_path / "home") as app:
        assert (await load(app, path)).skipped == []


def rollout(path: Path, session: str, cwd: str, url: str) -> Path:
    meta = {"id": session, "session_id": session, "cwd": cwd, "git": {"repository_url": url, "branch": "main"}}
    said_there = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"Go on in {cwd}."}]}
    values = [("session_meta", meta), ("response_item", said_there)]
    return write(path, [{"timestamp": LATER, "type": kind, "payload": payload} for kind, payload in values])


async def test_two_checkouts_that_are_gone_are_one_project_by_the_remote_that_codex_recorded(tmp_path: Path) -> None:
    one = rollout(tmp_path / "one.jsonl", "s1", str(tmp_path / "gone" / "shop"), "git@github.com:acme/shop.git")
    two = rollout(tmp_path / "two.jsonl", "s2", str(tmp_path / "away" / "copy"), "https://x:y@github.com/acme/shop")
    three = rollout(tmp_path / "three.jsonl", "s3", str(tmp_path / "gone" / "other"), "")
    async with memory(tmp_path / "home") as app:
        sources = [(CLIENTS["codex"], path) for path in (one, two, three)]
        await import_files(app.store, app.inbox, sources, app.intaker)
        projects = await app.store.projects()
    assert sorted((info.slug, info.sessions) for info in projects) == [("other", 1), ("shop", 2)]
