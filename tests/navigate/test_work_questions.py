"""Questions about the work itself: a file's history, what is open, what was asked for last, where we stopped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.budget import cursor_of
from mcp_memory.domain.nodes import Kind
from mcp_memory.navigate.work_questions import file_asked
from mcp_memory.search.hits import Hit, Results
from tests.support import StoppedClock, all_nodes, learn, memory, said, tell

pytestmark = pytest.mark.anyio
FILE = "internal/chunk/chunking.go"


def day(number: int, rows: list[tuple[str, str]], **more: Any) -> list[dict[str, Any]]:
    """A session of one day: role and text, a minute apart."""
    more = {"session": f"s{number}"} | more
    return [
        said(text, f"2026-03-{number:02}T09:{minute:02}:00Z", role=role, **more)
        for minute, (role, text) in enumerate(rows)
    ]


def edited(text: str, path: str = FILE) -> tuple[str, str]:
    return "tool", f"Edit: {path}\n{text}"


WORK = [
    *day(
        2,
        [
            ("user", "Make the chunks overlap, since answers lose the sentence at the border."),
            ("tool", f"Read: {FILE}\nconst Overlap = 0"),
            edited("- const Overlap = 0\n+ const Overlap = 64"),
            edited("+ // carried over from the chunk before"),
            ("tool", "Bash: go test ./...\nok"),
            ("assistant", "Chunks overlap by 64 tokens now; all tests pass."),
            ("user", "And how does the retriever use it?"),
            ("assistant", "It reads chunking.go's Overlap to merge neighbours."),
        ],
    ),
    *day(
        3,
        [
            ("user", "Yes, go on."),
            edited("- if len(parts) == 0 {\n+ if len(parts) <= 1 {"),
            ("tool", "Bash: git commit -am x\nCommit message: Keep a lone chunk whole\n\n[main 1a2b3c4] done"),
            ("assistant", "Committed. Still open: the retriever ignores the new border marks."),
        ],
    ),
    *day(
        4,
        [
            ("user", "Write the settings page."),
            edited("+ retries = 3", "cmd/app/settings.go"),
            edited("+ retries = 5", "pkg/settings.go"),
            ("assistant", "The settings page shows the retries."),
        ],
    ),
]


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with memory(tmp_path, StoppedClock("2026-03-10T12:00:00Z")) as app:
        await learn(app, WORK)
        yield app


async def ask(app: App, query: str, project: str = "alpha", **options: Any) -> Results:
    return (await app.answers.search(query, project, **options))[0]


def told(hit: Hit) -> list[str]:
    return [hit.passage.text, *(line.passage.text for line in hit.lines)]


@pytest.mark.parametrize(
    ("query", "file"),
    [
        ("chunking.go", "chunking.go"),
        ("what did we change in chunking.go?", "chunking.go"),
        ("why was `settings.go` changed", "settings.go"),
        ("history of cmd/foo/bar.go", "cmd/foo/bar.go"),
        ("what happened to src/auth/Login.tsx:42", "src/auth/Login.tsx"),
        ("when did we last touch the Makefile", "Makefile"),
        ("show me all edits to the file .gitignore", ".gitignore"),
        ("what does chunking.go do", ""),
        ("why did we drop the retry from settings.go", ""),
        ("what did we change in chunking.go and settings.go", ""),
        ("where is chunking.go", ""),
        ("v1.2.3", ""),
        ("why was the login changed", ""),
    ],
)
def test_a_question_is_about_a_file_if_it_names_one_and_nothing_but_its_changes(query: str, file: str) -> None:
    assert file_asked(query) == file


async def test_a_file_is_told_by_its_edits_with_their_reasons_newest_first(app: App) -> None:
    found = await ask(app, "what did we change in chunking.go?")
    assert found.order == "latest first"
    assert [hit.start_ms for hit in found.hits] == sorted((hit.start_ms for hit in found.hits), reverse=True)
    second, first = found.hits
    assert told(first) == [
        "Make the chunks overlap, since answers lose the sentence at the border.",
        f"Edit: {FILE}\n+ // carried over from the chunk before",
        "Chunks overlap by 64 tokens now; all tests pass.",
    ]
    assert told(second)[0].startswith("Commit message: Keep a lone chunk whole"), "the user only said to go on"
    assert second.lines[0].passage.text.startswith(f"Edit: {FILE}")
    assert {hit.score for hit in found.hits} == {0.8}
    assert first.node_id.startswith("toc:segment:")
    assert set(first.event_ids) >= {line.id for line in first.lines}


async def test_a_commit_is_told_beside_a_request_that_gives_the_reason(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        rows = [
            ("user", "Chunks must not cut words."),
            edited("+ x"),
            ("tool", "Bash: git commit\nCommit message: Cut"),
        ]
        await learn(app, day(2, [*rows, ("assistant", "Done: words stay whole.")]))
        [hit] = (await ask(app, "why was chunking.go changed")).hits
        assert told(hit)[0] == "Chunks must not cut words."
        assert told(hit)[2:] == ["Commit message: Cut", "Done: words stay whole."]


async def test_pages_are_parts_of_one_list(app: App) -> None:
    whole = [hit.id for hit in (await ask(app, "history of chunking.go")).hits]
    first = await ask(app, "history of chunking.go", limit=1)
    rest = await ask(app, "history of chunking.go", limit=5, cursor=cursor_of(first.more))
    assert [hit.id for hit in (*first.hits, *rest.hits)] == whole
    assert rest.more is None


async def test_after_the_edits_of_a_file_come_the_messages_that_name_it(app: App) -> None:
    talk = [
        ("user", "Is chunking.go the slow part?"),
        ("tool", "Bash: go tool pprof internal/chunk/chunking.go"),
        ("assistant", "Profiling shows internal/chunk/chunking.go at 40 %, see rechunking.go and chunking.gold."),
        ("user", "And rechunking.go?"),
    ]
    await tell(app, day(6, talk))
    found = await ask(app, "chunking.go", limit=20)
    assert found.order == "edits first"
    assert [hit.score for hit in found.hits[:2]] == [0.8, 0.8]
    assert [told(hit)[0] for hit in found.hits[2:]] == [
        talk[2][1],
        talk[0][1],
        "It reads chunking.go's Overlap to merge neighbours.",
        talk[1][1],
        f"Read: {FILE}\nconst Overlap = 0",
    ]
    assert {hit.score for hit in found.hits[2:]} == {0.5}
    pages, cursor = list[str](), None
    while len(pages) < 20:
        page = await ask(app, "chunking.go", limit=3, cursor=cursor)
        pages += [hit.id for hit in page.hits]
        if page.more is None:
            break
        cursor = cursor_of(page.more)
    assert pages == [hit.id for hit in found.hits]


async def test_a_message_that_an_edit_is_shown_with_is_not_listed_again(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        rows = [("user", "Chunk by words in chunking.go."), edited("+ x"), ("assistant", "chunking.go cuts at words.")]
        await learn(app, day(2, rows))
        [hit] = (await ask(app, "chunking.go")).hits
        assert told(hit)[0] == rows[0][1]
        assert told(hit)[-1] == rows[2][1]


async def test_a_question_for_the_changes_of_a_file_is_answered_by_its_changes_alone(app: App) -> None:
    assert {hit.score for hit in (await ask(app, "what did we change in chunking.go?")).hits} == {0.8}


@pytest.mark.parametrize("name", ["Node.js", "github.com"])
async def test_a_name_with_a_dot_is_a_file_only_if_a_file_of_that_name_was_changed(tmp_path: Path, name: str) -> None:
    async with memory(tmp_path) as app:
        edits = [edited("+ x", "vendor/github.com/pkg/node.js"), edited("+ y", "lib/node.js")]
        await learn(app, day(2, [("user", "Port the tree."), *edits, ("assistant", "Ported.")]))
        await learn(app, day(3, [("user", f"We stay with {name} for now.")]))
        found = await ask(app, name)
        assert found.order == "best first"
        assert told(found.hits[0])[0] == f"We stay with {name} for now."
        assert (await ask(app, "node.js")).hits[0].score == 0.55


async def test_a_name_that_several_files_have_is_less_sure_than_a_path(app: App) -> None:
    assert [hit.score for hit in (await ask(app, "settings.go")).hits] == [0.55]
    [hit] = (await ask(app, "history of cmd/app/settings.go")).hits
    assert hit.score == 0.8
    assert "retries = 3" in hit.lines[0].passage.text
    [hit] = (await ask(app, "history of /home/ada/alpha/pkg/settings.go")).hits
    assert (hit.score, hit.lines[0].passage.text) == (0.8, "Edit: pkg/settings.go\n+ retries = 5")


async def test_edits_that_failed_and_files_that_were_only_read_are_no_changes(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, day(2, [("user", "Look at the parser."), ("tool", "Read: parser.go\npackage parser")]))
        failed = said("Edit: parser.go\nno match", "2026-03-03T09:00:00Z", role="tool", metadata={"failed": True})
        await learn(app, [failed])
        assert all(hit.score != 0.8 for hit in (await ask(app, "history of parser.go")).hits)


async def test_a_time_a_project_and_a_kind_are_kept(app: App) -> None:
    found = await ask(app, "what did we change in chunking.go on March 2?")
    assert [hit.session_id for hit in found.hits] == ["s2"]
    assert found.when is not None
    assert [hit.session_id for hit in (await ask(app, "chunking.go", when="2026-03-03")).hits] == ["s3"]
    assert {hit.kind for hit in (await ask(app, "chunking.go", kind="day")).hits} <= {"day"}
    await learn(app, day(5, [("user", "Port it."), edited("+ port")], project="beta"))
    assert [hit.project for hit in (await ask(app, "history of chunking.go", "beta")).hits] == ["beta"]
    assert [hit.session_id for hit in (await ask(app, "history of chunking.go", "*")).hits] == ["s5", "s3", "s2"]


async def test_a_file_beside_a_topic_is_looked_for_by_words(app: App) -> None:
    found = await ask(app, "how does the retriever merge neighbours in chunking.go")
    assert found.order == "best first"
    assert any("merge neighbours" in text for hit in found.hits for text in told(hit))


@pytest.mark.parametrize(
    "query", ["what is open?", "what is still open", "what's left to do?", "open questions", "any open todos?"]
)
async def test_what_is_open_is_told_by_the_segments_that_leave_it_open(app: App, query: str) -> None:
    found = await ask(app, query)
    assert found.hits
    assert all(hit.kind == "segment" and hit.score == 0.55 for hit in found.hits)
    assert "retriever ignores the new border marks" in found.hits[0].passage.text
    assert found.hits[0].event_ids, "it leads to the words"
    assert {node.session_id for node in await all_nodes(app) if Kind.OPEN in {b.kind for b in node.bullets}} >= {"s3"}


async def test_what_something_later_speaks_of_is_no_longer_open(app: App) -> None:
    done = "The retriever no longer ignores the new border marks: it reads them from each chunk."
    await learn(app, day(6, [("user", "Make the retriever use the new border marks."), ("assistant", done)]))
    texts = [hit.passage.text for hit in (await ask(app, "what is still open?")).hits if hit.score == 0.55]
    assert not any("ignores the new border marks" in text for text in texts)


async def test_records_tell_what_is_open_as_well(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        talk = [("user", f"Step {at}: " + "extend the importer. " * 8) for at in range(20)]
        last = [("user", "I will rotate the staging certificates by Friday."), ("assistant", "Noted.")]
        await learn(app, day(2, [*last, *talk]))
        made = await app.compactor.compact("s2", force=True)
        assert made.record is not None
        assert made.record.body.context.action_items
        texts = "\n".join(hit.passage.text for hit in (await ask(app, "open todos")).hits)
        assert "rotate the staging certificates" in texts


@pytest.mark.parametrize("query", ["what did I ask for last?", "my last request", "what was my last question?"])
async def test_what_the_user_asked_for_is_told_newest_first_with_the_reply(app: App, query: str) -> None:
    await tell(app, day(9, [("user", query)]))
    found = await ask(app, query)
    assert told(found.hits[0]) == ["Write the settings page.", "The settings page shows the retries."]
    assert [hit.session_id for hit in found.hits] == ["s4", "s3", "s2", "s2"]
    assert {hit.role for hit in found.hits} == {"user"}
    assert {hit.score for hit in found.hits} == {0.8}


async def test_what_was_asked_just_now_is_known_before_it_is_summarized(app: App) -> None:
    await tell(app, day(9, [("user", "Rename the border marks.")]))
    assert told((await ask(app, "what did I ask for last?")).hits[0]) == ["Rename the border marks."]
    found = await ask(app, "what did I ask for on March 3?")
    assert [told(hit)[0] for hit in found.hits] == ["Yes, go on."]


async def test_a_request_with_a_topic_is_looked_for_by_words(app: App) -> None:
    found = await ask(app, "what did I ask for about the retriever last")
    assert found.order == "best first"


@pytest.mark.parametrize("query", ["where did we stop?", "where did we leave off", "what were we doing?"])
async def test_where_we_stopped_is_the_end_of_the_last_session(app: App, query: str) -> None:
    await tell(app, day(9, [("user", query)]))
    found, page = await app.answers.teleport(query, "alpha", limit=5, budget=600)
    assert [(hit.kind, hit.session_id) for hit in found.hits] == [("segment", "s4"), ("event", "s4")]
    assert found.hits[1].lines[0].passage.text == "The settings page shows the retries."
    assert {hit.score for hit in found.hits} == {0.8}
    assert ", latest first:" in page.text
    assert [hit.kind for hit in (await ask(app, query, kind="event")).hits] == ["event"]


async def test_an_empty_memory_leaves_all_of_them_to_the_search(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        for query in ("chunking.go", "what is open?", "what did I ask for last?", "where did we stop?"):
            assert not (await ask(app, query, "*")).hits
