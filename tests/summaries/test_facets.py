"""What must survive a compaction is found without a model, and nothing is made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_memory.clients.claude_code import read
from mcp_memory.clients.port import TranscriptState
from mcp_memory.domain.events import Captured, Event, Role
from mcp_memory.domain.records import ActionItem, Facets
from mcp_memory.models import tokens
from mcp_memory.pipeline.ingest import Intaker
from mcp_memory.summaries import ExtractiveFacets
from mcp_memory.summaries.facets import action_item
from tests.summaries.conversations import conversation

TRANSCRIPTS = Path(__file__).resolve().parents[3] / "shared" / "data" / "transcripts"


def facets(*turns: tuple[str, str]) -> Facets:
    return ExtractiveFacets().find(conversation(*turns))


def test_what_was_chosen_is_a_decision_whoever_chose_it() -> None:
    found = facets(
        ("user", "How should we store the sessions?"),
        ("assistant", "I chose SQLite instead of Redis because the tool must work offline."),
        ("user", "Let's keep the TTL at 3600 seconds rather than making it a setting."),
        ("assistant", "I will look at the code now."),
    )
    assert any("SQLite instead of Redis" in text for text in found.decisions)
    assert any("TTL at 3600" in text for text in found.decisions)
    assert not any("look at the code" in text for text in found.decisions)


def test_things_to_do_have_an_owner_and_a_date_where_they_say_so() -> None:
    found = facets(
        ("user", "Please prepare the release of the exporter."),
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
        ("assistant", "The stale cache in parser.py needs to be removed."),
        ("user", "go ahead"),
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
    assert sum(bool(one.decisions) for one in found) >= 0.6 * len(found)
    assert all(one.participants and one.domain_entities for one in found)
    for events, one in zip(sessions, found, strict=True):
        words = " ".join(event.text for event in events).lower()
        for text in (*one.decisions, *one.unresolved, *(item.task for item in one.action_items)):
            assert 5 <= len(text) <= 240
            own = [word for word in text.lower().split() if word.isalpha() and len(word) > 3]
            assert all(word in words for word in own), text
