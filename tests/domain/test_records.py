"""How one record follows from another, and what is never lost on the way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain import records
from mcp_memory.domain.records import ActionItem, Body, Facets, body_text, fold, follow, renew, shortened
from mcp_memory.models import tokens


def topic(name: str, many: int) -> list[str]:
    """Statements that have nothing in common with one another."""
    return [f"{name}{n} alpha{name}{n} beta{name}{n} gamma{name}{n}" for n in range(many)]


def body(name: str, many: int = 40) -> Body:
    items = tuple(ActionItem(task, "user", "Friday") for task in topic(f"task{name}", many))
    facets = Facets(
        ("user", "assistant"),
        tuple(topic(f"dec{name}", many)),
        items,
        tuple(topic(f"open{name}", many)),
        tuple(f"{name}_{n}.py" for n in range(many)),
    )
    return Body(f"Summary of {name}.", tuple(topic(f"key{name}", many)), facets)


def test_every_list_keeps_its_limit_however_long_the_chain() -> None:
    record: Body | None = None
    for number in range(8):
        record = shortened(follow(record, fold([body(f"{number}a"), body(f"{number}b")])), 1 << 20, tokens.count)
    assert record is not None
    assert len(record.key_points) == records.MAX_KEY_POINTS == 30
    assert len(record.context.decisions) <= records.MAX_DECISIONS
    assert len(record.context.action_items) <= records.MAX_ACTIONS
    assert len(record.context.unresolved) <= records.MAX_UNRESOLVED
    assert len(record.context.domain_entities) <= records.MAX_ENTITIES
    assert len(record.summary) <= records.MAX_SUMMARY


def test_the_third_record_still_holds_all_that_the_first_chose() -> None:
    first = fold([body("a")])
    third = follow(follow(first, fold([body("b")])), fold([body("c")]))
    assert set(first.key_points) <= set(third.key_points)
    assert set(first.context.decisions) <= set(third.context.decisions)
    assert set(first.context.domain_entities) <= set(third.context.domain_entities)
    assert first.summary in third.summary


def test_a_refreshed_record_keeps_the_parents_share_and_something_of_what_it_replaces() -> None:
    parent = fold([body("a")])
    last = follow(parent, fold([body("b")]))
    new = renew(parent, last, fold([body("c")]))
    assert set(parent.context.decisions) <= set(new.context.decisions)
    assert any("decb" in text for text in new.context.decisions)
    assert any("decc" in text for text in new.context.decisions)
    alone = renew(None, fold([body("b")]), fold([body("c")]))
    assert {text[3] for text in alone.context.decisions} == {"b", "c"}


def test_what_was_settled_is_no_longer_open() -> None:
    before = Body("", (), Facets(unresolved=("Why does test_login_flow time out on macOS runners?",)))
    now = Body("", ("test_login_flow no longer times out on macOS runners since the retry was fixed",))
    assert follow(before, now).context.unresolved == ()
    assert follow(before, Body("", ("The parser was renamed",))).context.unresolved == before.context.unresolved


def test_the_same_decision_in_nearly_the_same_words_is_kept_once() -> None:
    before = Body("", (), Facets(decisions=("Use PostgreSQL instead of MySQL for the billing database",)))
    now = Body("", (), Facets(decisions=("We use PostgreSQL instead of MySQL for the billing database.",)))
    assert len(follow(before, now).context.decisions) == 1


@given(st.integers(20, 3_000))
def test_a_shortened_record_fits_and_keeps_beginning_and_end(room: int) -> None:
    whole = body("a", 20)
    short = shortened(whole, room, tokens.count)
    assert tokens.count(body_text(short)) <= max(room, 60)
    if short.context.decisions[1:]:
        assert whole.context.decisions[0].startswith(short.context.decisions[0].rstrip("…"))


def test_texts_that_are_too_long_are_cut() -> None:
    long = "word " * 1_000
    facets = Facets((long,), (long,), (ActionItem(long, long, long),), (long,), (long,))
    one = shortened(Body(long, (long,), facets), 1 << 20, tokens.count)
    assert len(one.summary) <= records.MAX_SUMMARY
    assert len(one.key_points[0]) <= records.MAX_ITEM
    item = one.context.action_items[0]
    assert max(len(item.task), len(item.owner), len(item.due)) <= records.MAX_ITEM
    assert len(one.context.participants[0]) <= records.MAX_NAME
