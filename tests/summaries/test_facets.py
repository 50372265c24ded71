"""What must survive a compaction is found without a model, and nothing is made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mcp_memory.clients.claude_code import read
from mcp_memory.clients.port import TranscriptState
from mcp_memory.domain.events import Captured, Event, EventType, Role
from mcp_memory.domain.records import ActionItem, Facets
from mcp_memory.models import tokens
from mcp_memory.pipeline.ingest import Intaker
from mcp_memory.summaries import ExtractiveFacets
from mcp_memory.summaries.facets import action_item
from tests.summaries.conversations import conversation

TRANSCRIPTS = Path(__file__).resolve().parents[3] / "shared" / "data" / "transcripts"


def facets(*turns: tuple[str, str]) -> Facets:
    return ExtractiveFacets().find(conversation(*turns))


OPTIONS = (
    "There are three ways to keep the sessions:\n\n### Option A: A table in SQLite\n1. Works offline.\n2. Is fast.\n\n"
    "### Option B: Redis with a TTL\nNeeds a server.\n\n### Option C: A file per session\nSimple.\n\n"
    "I'd recommend Option B. Which one do you prefer?"
)


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ("I like the second one", "Redis with a TTL"),
        ("Option A, it must work offline", "A table in SQLite"),
        ("I don't want to run a server, so option A is better.", "A table in SQLite"),
        ("the third, but with a lock", "A file per session"),
        ("no, not option B. Option C please", "A file per session"),
    ],
)
def test_the_option_that_the_user_names_is_decided_with_the_users_words(answer: str, chosen: str) -> None:
    found = facets(("user", "How should we keep the sessions?"), ("assistant", OPTIONS), ("user", answer))
    (decision,) = found.decisions
    assert chosen in decision
    assert answer.rstrip(".") in decision
    assert ("Redis" in decision) is chosen.startswith("Redis")


@pytest.mark.parametrize(
    "answer",
    ["I don't like option B", "What would option B cost?", "not the second one", "nicht Option B", "不要 option B"],
)
def test_an_option_that_the_user_turns_down_or_asks_about_is_not_decided(answer: str) -> None:
    found = facets(("user", "How should we keep the sessions?"), ("assistant", OPTIONS), ("user", answer))
    assert found.decisions == ()


def test_what_the_user_agreed_to_is_told_by_the_question() -> None:
    found = facets(
        ("user", "The nightly export is slow."),
        ("assistant", "The export opens a connection per row. Should I move the pool of InvoiceExporter to the job?"),
        ("user", "yes please"),
    )
    assert found.decisions == ("Should I move the pool of InvoiceExporter to the job? → yes please",)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Soll ich den Verbindungspool in den Job verschieben?", "ja bitte"),
        ("Veux-tu que je déplace le pool dans le job de nuit ?", "oui, vas-y"),
        ("¿Quieres que mueva el pool al trabajo nocturno?", "sí, hazlo"),
        ("要我把连接池移到夜间任务里吗？", "好的"),
        ("接続プールをジョブに移しましょうか？", "はい、お願いします"),
    ],
)
def test_agreement_is_known_in_other_languages(question: str, answer: str) -> None:
    found = facets(("user", "The export is slow."), ("assistant", question), ("user", answer))
    assert found.decisions == (f"{question} → {answer}",)


def test_a_question_that_tells_nothing_is_replaced_by_what_was_proposed() -> None:
    found = facets(
        ("user", "The nightly export is slow."),
        ("assistant", "I'd suggest one connection pool for the whole nightly export.\n\nWant me to do this?"),
        ("user", "yep"),
    )
    assert found.decisions == ("I'd suggest one connection pool for the whole nightly export. → yep",)


def test_a_choice_in_the_users_words_is_decided() -> None:
    found = facets(
        ("user", "How does the cache work?"),
        ("assistant", "Entries expire after an hour."),
        ("user", "Let's keep the TTL at 3600 seconds rather than making it a setting."),
        ("assistant", "The constant stays in cache.py."),
        ("user", "So rather than a new table.py let's put the columns into list.py"),
    )
    first, second = found.decisions
    assert "TTL at 3600" in first
    assert "rather than a new table.py" in second


@pytest.mark.parametrize(
    "later",
    ["Actually no, use SQLite for the sessions instead of Redis", "Let's use SQLite for the sessions after all"],
)
def test_a_decision_that_the_user_turned_round_gives_way_to_the_later_one(later: str) -> None:
    found = facets(
        ("user", "Where do the sessions live?"),
        ("assistant", "Nowhere yet."),
        ("user", "Let's use Redis for the sessions"),
        ("assistant", "The sessions are kept in Redis now."),
        ("user", later),
    )
    assert found.decisions == (later,)


def test_what_both_say_was_decided_is_a_decision_whoever_says_it() -> None:
    found = facets(
        ("user", "Why is there no Redis here?"),
        ("assistant", "We decided to use SQLite instead of Redis, because the tool must work offline."),
    )
    (decision,) = found.decisions
    assert "SQLite instead of Redis" in decision


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("The parser is done.", "Please add a test for the empty file"),
        ("The parser is done.", "The parser still fails on an empty file"),
        ("The parser is done.", "Can we use a generator instead of a list?"),
        ("I chose a generator instead of a list because files are large.", "ok"),
        ("I'd recommend a generator instead of a list for large files.", "What does that cost?"),
        ("Should the parser skip empty lines or keep them?", "I tested it with the real file"),
        ("Is the parser installed on your machine already?", "yes"),
    ],
)
def test_a_request_a_report_a_question_and_a_proposal_are_no_decisions(said: str, answer: str) -> None:
    assert facets(("user", "Look at the parser."), ("assistant", said), ("user", answer)).decisions == ()


def test_an_answer_to_a_tools_question_and_a_noted_decision_are_decisions() -> None:
    asked = "AskUserQuestion: Where do drafts live?\nQuestion: Where do drafts live?\nChosen: Database — one table"
    events = conversation(("user", "Add drafts."), ("tool", f"{asked}\nNot chosen: Files"), ("note", "Drafts expire."))
    noted = replace(events[-1], metadata={"kind": "decision"})
    found = ExtractiveFacets().find([*events[:-1], noted])
    assert found.decisions == ("Where do drafts live? → Database — one table", "Drafts expire.")


def test_a_plan_that_was_agreed_to_is_decided_and_a_refused_one_is_not() -> None:
    plan = "ExitPlanMode: Cache the rates\n# Plan: Cache the exchange rates for a day\n\n## Steps\nAdd a table."
    events = conversation(("user", "The rates are slow."), ("tool", plan))
    assert ExtractiveFacets().find(events).decisions == ("Plan: Cache the exchange rates for a day",)
    refused = replace(events[1], metadata={"refused": True, "failed": True})
    assert ExtractiveFacets().find([events[0], refused]).decisions == ()


def test_a_long_session_keeps_decisions_from_its_beginning_to_its_end() -> None:
    words = "apple bread cedar delta ember flint grape hazel ivory jelly kayak lemon marble nectar onyx pearl".split()
    choices = [f"Let's use {one} rather than {other}." for one, other in zip(words[::2], words[1::2], strict=True)]
    further = [f"Let's keep the {word} as it is." for word in ("queue", "offset", "reader", "batch")]
    turns = [turn for text in [*choices, *further] for turn in (("assistant", "It is done."), ("user", text))]
    found = facets(("user", "Start."), *turns)
    assert len(found.decisions) == 8
    assert "apple" in found.decisions[0]
    assert "batch" in found.decisions[-1]


def test_the_items_that_wait_in_the_last_list_are_to_do() -> None:
    found = facets(
        ("user", "Add an index."),
        ("tool", "TodoWrite\n[~] Write the migration\n[ ] Run the tests twice\n[ ] Update the changelog"),
        ("tool", "TodoWrite\n[x] Write the migration\n[x] Run the tests twice\n[ ] Update the changelog"),
    )
    assert [item.task for item in found.action_items] == ["Update the changelog"]


def test_things_to_do_have_an_owner_and_a_date_where_they_say_so() -> None:
    found = facets(
        ("user", "Please prepare the release of the exporter."),
        ("tool", "Edit: /home/ada/exporter/CHANGELOG.md\nThe file has been updated."),
        ("assistant", "The exporter is ready. You need to rotate the signing key before 2026-04-01."),
        ("user", "Remind me to update the changelog by Friday."),
        ("assistant", "Noted.\n\nNext steps:\n- Publish the container image\n- Announce it in the channel"),
    )
    items = {item.task: item for item in found.action_items}
    key = next(item for task, item in items.items() if "signing key" in task)
    assert (key.owner, key.due) == ("user", "2026-04-01")
    log = next(item for task, item in items.items() if "changelog" in task)
    assert (log.owner, log.due) == ("user", "Friday")
    assert "Publish the container image" in items
    assert "Announce it in the channel" in items


def test_tasks_that_are_made_one_by_one_are_to_do_until_they_are_done() -> None:
    texts = ["TaskCreate: Write the migration\n[ ] Write the migration", "TaskCreate: Run the tests\n[ ] Run the tests"]
    events = conversation(("user", "Add an index."), *(("tool", text) for text in [*texts, "TaskUpdate: #1\n[x] #1"]))
    tasks = [replace(one, metadata={"task": number}) for one, number in zip(events[1:], "121", strict=True)]
    found = ExtractiveFacets().find(
        [events[0], *tasks, *conversation(("tool", "Task: Look at the docs\nDone."), first=9)]
    )
    assert [item.task for item in found.action_items] == ["Run the tests"]


@pytest.mark.parametrize(
    ("text", "role", "expected"),
    [
        ("You should review PR #12", Role.ASSISTANT, ("user", "")),
        ("I'll send the numbers tomorrow", Role.USER, ("user", "")),
        ("Maria will review the schema by next week", Role.USER, ("Maria", "next week")),
        ("@joe needs to be asked before the release", Role.USER, ("joe", "the release")),
        ("The docs need to be updated", Role.ASSISTANT, ("", "")),
    ],
)
def test_a_sentence_as_a_task(text: str, role: Role, expected: tuple[str, str]) -> None:
    assert action_item(text, role) == ActionItem(text, *expected)


def test_a_task_that_was_done_later_is_not_left_to_do() -> None:
    found = facets(
        ("user", "Look at the parser."),
        ("assistant", "You still need to remove the stale cache in parser.py before the release."),
        ("user", "go ahead, you do it"),
        ("assistant", "I removed the stale cache in parser.py and all 14 tests pass now."),
    )
    assert found.action_items == ()


def test_open_matters_and_unanswered_questions_are_unresolved() -> None:
    found = facets(
        ("user", "Why is the nightly job slow?"),
        ("assistant", "It is still unclear whether the lock or the network slows the nightly job down."),
        ("user", "ok"),
        ("assistant", "Which of the two databases should the exporter read from in the staging environment?"),
    )
    assert any("unclear whether the lock" in text for text in found.unresolved)
    assert any("Which of the two databases" in text for text in found.unresolved)


def test_an_answered_question_and_an_offer_are_not_open() -> None:
    found = facets(
        ("user", "Add a flag."),
        ("assistant", "Which name should the new flag of the exporter have, --dry-run or --preview?"),
        ("user", "--dry-run"),
        ("assistant", "Added the flag. Would you like me to commit the change to the main branch now?"),
    )
    assert found.unresolved == ()


def test_what_a_later_turn_went_past_is_not_open_any_more() -> None:
    found = facets(
        ("user", "Why is the nightly job slow?"),
        ("assistant", "It is still unclear whether the lock or the network slows the nightly job down."),
        ("user", "Then drop the lock and measure it."),
        ("assistant", "The job takes 4 s without the lock."),
    )
    assert found.unresolved == ()


def test_work_that_was_stopped_and_an_open_note_are_unresolved() -> None:
    events = conversation(("user", "Move the settings to the home directory."), ("note", "Windows is untested."))
    stop = replace(events[0], event_type=EventType.ASSISTANT_STOP, role=Role.SYSTEM, metadata={"is_interrupt": True})
    found = ExtractiveFacets().find([events[0], stop, replace(events[1], metadata={"kind": "open"})])
    note, stopped = found.unresolved
    assert note == "Windows is untested."
    assert stopped.startswith("Move the settings to the home directory")


def test_an_error_is_unresolved_only_if_nothing_ran_after_it() -> None:
    failed = ("tool", "Bash: make check\nExit code 1\nTypeError: cannot unpack non-iterable Config object")
    asked = ("user", "Run the checks.")
    assert any("cannot unpack" in text for text in facets(asked, failed).unresolved)
    assert facets(asked, failed, ("tool", "Bash: git diff\n+ one line")).unresolved == ()


@pytest.mark.parametrize(
    ("answer", "is_open"), [("ok", True), ("Explain in two sentences what a lock file is good for.", False)]
)
def test_an_error_before_a_last_turn_without_calls_is_unresolved_if_the_user_only_nodded(
    answer: str, is_open: bool
) -> None:
    failed = ("tool", "Bash: make check\nExit code 1\nTypeError: cannot unpack non-iterable Config object")
    found = facets(("user", "Run the checks."), failed, ("user", answer), ("assistant", "It keeps others waiting."))
    assert any("cannot unpack" in text for text in found.unresolved) is is_open


def test_a_talk_between_people_gives_plans_with_their_owner_or_nothing() -> None:
    found = facets(
        ("user", "Mia: These old photos always remind me of the summer!"),
        ("assistant", "Tom: They are great. I'll send you the negatives on Friday."),
        ("user", "Mia: Thanks! What about you?"),
        ("assistant", "Tom: All fine, talk to you later. How is your mother?"),
    )
    (item,) = found.action_items
    assert (item.owner, item.due) == ("Tom", "Friday")
    assert found.decisions == found.unresolved == ()
    assert found.participants == ("Mia", "Tom")


@pytest.mark.parametrize(
    ("said", "decided"),
    [
        ("Wir haben uns entschieden, die Termine in UTC zu speichern.", "Termine in UTC"),
        ("我们决定把会话保存在数据库里。", "数据库"),
    ],
)
def test_other_languages_have_decisions_too(said: str, decided: str) -> None:
    (decision,) = facets(("user", said)).decisions
    assert decided in decision


def test_people_files_and_references_are_named() -> None:
    found = facets(
        ("user", "Fix InvoiceExporter as described in PR #212."),
        ("tool", "Edit: app/invoice_exporter.py\n- a\n+ b"),
        ("assistant", "InvoiceExporter now retries; PR #212 is updated."),
    )
    assert found.participants == ("user", "assistant")
    assert found.domain_entities[0] == "invoice_exporter.py"
    assert any("#212" in name for name in found.domain_entities)
    assert "InvoiceExporter" in found.domain_entities


def test_statements_with_numbers_are_kept_beside_a_summary() -> None:
    events = conversation(
        ("user", "What did you find?"),
        ("assistant", "The retry limit of InvoiceExporter is 7 attempts with a backoff of 250 ms. It reads well."),
    )
    (point,) = ExtractiveFacets().points(events)
    assert "7 attempts" in point
    assert "250 ms" in point


def test_an_empty_stretch_has_no_facets() -> None:
    assert facets() == Facets()
    assert ExtractiveFacets().points([]) == ()


def real_sessions() -> list[list[Event]]:
    intaker = Intaker(65_536, 1_000, tokens.count_all)
    paths = sorted(TRANSCRIPTS.glob("*.jsonl"))
    return [
        intaker.prepare([told for told in read(path, TranscriptState()) if isinstance(told, Captured)])
        for path in paths
    ]


@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="shared/data/transcripts is not beside the repository")
def test_real_sessions_have_useful_facets() -> None:
    sessions = real_sessions()
    found = [ExtractiveFacets().find(events) for events in sessions]
    assert len(found) >= 20
    assert any(one.decisions for one in found)
    assert all(one.participants and one.domain_entities for one in found)
    for events, one in zip(sessions, found, strict=True):
        words = " ".join(event.text for event in events).lower()
        for text in (*one.decisions, *one.unresolved, *(item.task for item in one.action_items)):
            assert 5 <= len(text) <= 240
            own = [word for word in text.lower().split() if word.isalpha() and len(word) > 3]
            assert all(word in words for word in own), text
