"""What a conversation says, as statements: kind, mood, speaker, turn and the very words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.nodes import Kind
from mcp_memory.summaries.calls import Source
from mcp_memory.summaries.messages import MAX_TEXT, units
from mcp_memory.summaries.statements import Mood, Statement, collect, mood_of, next_turns, turns_of, unopened, user_kind

from .conversations import INTERRUPTED, Turn, commit, conversation, edited, refused


def stated(*turns: Turn) -> list[Statement]:
    return [one for turn in collect(conversation(*turns)) for one in turn.statements]


def texts(*turns: Turn, kind: Kind | None = None) -> list[str]:
    return [one.text for one in stated(*turns) if kind in (None, one.kind)]


def test_a_turn_is_what_a_user_said_and_all_that_came_of_it() -> None:
    turns = turns_of(
        conversation(
            ("user", "Add a retry."),
            ("user", "With a limit, please."),
            ("assistant", "I look at the client."),
            edited("client.py"),
            ("assistant", "Added a retry with a limit of three."),
            ("user", "And log each one."),
            ("assistant", "Each retry is logged."),
        )
    )
    assert [(len(turn.asked), len(turn.said), len(turn.calls)) for turn in turns] == [(2, 2, 1), (1, 1, 0)]
    assert [turn.changed for turn in turns] == [True, False]
    assert [turn.closing.text if turn.closing else "" for turn in turns] == [
        "Added a retry with a limit of three.",
        "Each retry is logged.",
    ]


def test_a_message_before_which_the_users_words_are_missing_belongs_to_a_turn_of_its_own() -> None:
    turns = turns_of(conversation(("assistant", "The build is green."), ("user", "Tag the release.")))
    assert [len(turn.asked) for turn in turns] == [0, 1]


def test_a_message_after_which_work_went_on_does_not_close_its_turn() -> None:
    turns = turns_of(conversation(("user", "Add a retry."), ("assistant", "I add one now."), edited("client.py")))
    assert turns[0].closing is None


def test_an_interruption_ends_a_turn() -> None:
    turns = turns_of(conversation(("user", "Add a retry."), INTERRUPTED, ("user", "Rather add a timeout.")))
    assert [turn.interrupted for turn in turns] == [True, False]


@pytest.mark.parametrize(
    "call", [refused(), refused('Bash: git commit -m "Drop the cart"'), ("tool", "Read: /a.py\nx")]
)
def test_a_refused_call_and_a_look_change_nothing(call: Turn) -> None:
    assert not turns_of(conversation(("user", "Clean up."), call))[0].changed


@pytest.mark.parametrize("call", [edited("cart.py"), commit("Drop the old cart")])
def test_an_edit_and_a_commit_change_something(call: Turn) -> None:
    assert turns_of(conversation(("user", "Clean up."), call))[0].changed


@pytest.mark.parametrize(
    ("said", "mood"),
    [
        ("The shader cache is rebuilt on each start.", Mood.FACT),
        ("The shader cache might be rebuilt on each start.", Mood.GUESS),
        ("This seems to be a race between both loaders.", Mood.GUESS),
        ("If both loaders run, the cache is rebuilt.", Mood.GUESS),
        ("Unless the flag is set, the cache is rebuilt.", Mood.GUESS),
        ("Should the cache be rebuilt on each start?", Mood.QUESTION),
        ("Option B: rebuild the cache only after an update", Mood.OPTION),
        ("I'd recommend to rebuild it only after an update.", Mood.PROPOSAL),
        ("We could also ship the cache with the game.", Mood.PROPOSAL),
        ("Let me check where the cache is built.", Mood.STEP),
        ("Great, now let me run the benchmarks.", Mood.STEP),
        ("Perfect!", Mood.STEP),
        ("Vielleicht wird der Cache bei jedem Start gebaut.", Mood.GUESS),
        ("Lass mich zuerst den Cache ansehen.", Mood.STEP),
        ("Je vais regarder le cache d'abord.", Mood.STEP),
        ("Voy a mirar la caché primero.", Mood.STEP),
        ("キャッシュが原因かもしれません。", Mood.GUESS),
        ("可能是缓存没有更新。", Mood.GUESS),
        ("要不要重建缓存？", Mood.QUESTION),
        ("The cache is rebuilt only if the driver has changed.", Mood.FACT),
    ],
)
def test_how_a_sentence_is_meant(said: str, mood: Mood) -> None:
    assert mood_of(said) is mood


def test_what_stands_below_a_line_of_options_is_one() -> None:
    assert mood_of("Keep the table in memory", "We have two options here") is Mood.OPTION
    assert mood_of("Keep the table in memory", "Option B") is Mood.OPTION
    assert mood_of("Keeps the table in memory", "What changed") is Mood.FACT


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Always run the linter before a commit.", Kind.RULE),
        ("Never touch the generated bindings.", Kind.RULE),
        ("don't add new dependencies", Kind.RULE),
        ("Bitte niemals direkt auf main pushen.", Kind.RULE),
        ("不要修改公共接口", Kind.RULE),
        ("The export crashes on empty orders.", Kind.REPORT),
        ("Der Export ist kaputt.", Kind.REPORT),
        ("ログイン画面でエラーが出ます", Kind.REPORT),
        ("Rename the export to report.", Kind.REQUEST),
        ("yes, go ahead", Kind.NOISE),
        ("ok", Kind.NOISE),
    ],
)
def test_a_users_sentence_is_a_rule_a_report_a_request_or_nothing(said: str, kind: Kind) -> None:
    assert user_kind(said, "prose") is kind


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("The orders are doubled because the webhook fires twice.", Kind.CAUSE),
        ("Die Ursache war ein abgelaufenes Zertifikat auf dem Server.", Kind.CAUSE),
        ("L'erreur vient du cache des traductions de la page.", Kind.CAUSE),
        ("原因是时区没有转换。", Kind.CAUSE),
        ("The migration of old invoices is not yet done.", Kind.OPEN),
        ("Les anciennes factures : reste à convertir avant juin.", Kind.OPEN),
        ("古いデータの移行はまだ終わっていません。", Kind.OPEN),
        ("Added a unique index on the webhook id.", Kind.OUTCOME),
        ("The importer now rejects rows without a date.", Kind.OUTCOME),
        ("変換処理を dates.py に追加しました。", Kind.OUTCOME),
    ],
)
def test_an_assistants_sentence_is_a_cause_what_is_open_or_what_was_done(said: str, kind: Kind) -> None:
    assert [one.kind for one in stated(("user", "How is it?"), ("assistant", said)) if not one.by_user] == [kind]


def test_what_is_said_in_passing_is_a_finding_and_what_closes_a_turn_is_stated() -> None:
    found = stated(
        ("user", "Look at the boot log."),
        ("assistant", "The boot log holds two resets by the watchdog."),
        ("tool", "Read: /home/ada/fw/boot.log\n..."),
        ("assistant", "The watchdog timeout is four seconds on this board."),
    )
    assert [(one.kind, one.source) for one in found if not one.by_user] == [
        (Kind.FINDING, Source.PASSING),
        (Kind.STATED, Source.CLOSING),
    ]


def test_what_closes_a_turn_of_changes_tells_what_was_done() -> None:
    found = stated(
        ("user", "Round prices once."),
        edited("price.py"),
        ("assistant", "Prices are rounded at the till.\n\n- `price.py` keeps all digits\n- receipts show two of them"),
    )
    assert [one.kind for one in found if one.source is Source.CLOSING] == [Kind.OUTCOME] * 3


def test_what_was_announced_tells_what_was_done_where_no_message_closes_the_turn() -> None:
    found = stated(
        ("user", "Receipts are wrong."),
        ("assistant", "Let me round the totals of all receipts only once."),
        edited("price.py"),
    )
    assert "Round the totals of all receipts only once" in [one.text for one in found if one.kind is Kind.DID]
    looked = stated(
        ("user", "Receipts are wrong."),
        ("assistant", "Let me read how the totals of receipts are rounded."),
        ("tool", "Read: /home/ada/shop/price.py\n..."),
    )
    assert not [one for one in looked if one.kind is Kind.DID]


def test_a_lead_with_its_list_is_one() -> None:
    said = (
        "The release workflow now runs three checks:\n- lint of all shaders\n- size of the bundle\n- licences\n\nEnd."
    )
    joined = "The release workflow now runs three checks: lint of all shaders; size of the bundle; licences"
    found = units(said)
    assert found[0].text == joined
    assert said[found[0].start : found[0].end].endswith("- licences")


def test_a_list_that_does_not_fit_stays_in_items_under_its_lead() -> None:
    items = "\n".join(f"- the {name} of the scene is now drawn in a pass of its own" for name in ("sky", "sea", "sand"))
    found = units(f"What the renderer does with each layer:\n{items}\n" + "- the fog comes last of all layers " * 3)
    assert {unit.lead for unit in found if unit.form == "item"} == {"What the renderer does with each layer"}
    assert all(len(unit.text) <= MAX_TEXT for unit in found)


def test_a_label_is_neither_told_nor_joined() -> None:
    found = units("Summary:\n- the parser keeps comments\n- the printer drops them")
    assert [unit.text for unit in found] == ["the parser keeps comments", "the printer drops them"]


def test_code_and_headings_are_no_sentences_of_an_assistant() -> None:
    code = "```python\nraise SystemExit('gone for good')\n```"
    said = f"## What changed in the exporter\n\n{code}\n\nRows stay in order now."
    assert texts(("assistant", said)) == ["Rows stay in order now"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Perfect! The totals are rounded once.", "The totals are rounded once"),
        ("Good catch — the totals were rounded twice.", "The totals were rounded twice"),
        ("Done. the totals are rounded once.", "The totals are rounded once"),
        ("1. rename the column", "Rename the column"),
        ("`price.py` rounds once;", "`price.py` rounds once"),
        ("Is it rounded?", "Is it rounded?"),
        ("Done.", "Done"),
        ("价格只取整一次。", "价格只取整一次"),
    ],
)
def test_praise_before_a_sentence_and_marks_after_it_are_left_out(said: str, told: str) -> None:
    assert unopened(said) == told


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("hey, can you please rename the job?", "Rename the job"),
        ("could you also log each retry", "Log each retry"),
        ("I'd like to see the totals per month", "See the totals per month"),
        ("Kannst du bitte die Mahnungen sortieren?", "Die Mahnungen sortieren"),
        ("Pourriez-vous trier les factures par date ?", "Trier les factures par date"),
        ("Podrías ordenar las facturas por fecha?", "Ordenar las facturas por fecha"),
    ],
)
def test_a_polite_request_is_told_without_its_politeness(said: str, told: str) -> None:
    [one] = stated(("user", said))
    assert (one.text.strip(), one.mood, one.kind) == (told, Mood.FACT, Kind.REQUEST)


def test_a_real_question_stays_one() -> None:
    [one] = stated(("user", "Why does the tile cache grow on every level?"))
    assert (one.text, one.mood) == ("Why does the tile cache grow on every level?", Mood.QUESTION)


def test_short_sentences_of_a_user_are_one_thought() -> None:
    said = "The cart forgets items. It began on Monday. Look at the session store."
    assert texts(("user", said)) == [said.rstrip(".")]
    long = f"{said} {'The session store was moved to another host with another clock and another time zone. ' * 3}"
    assert len(texts(("user", long))) > 1


@pytest.mark.parametrize("kind", [Kind.NOTE, Kind.DECISION, Kind.OUTCOME, Kind.RULE, Kind.OPEN])
def test_a_note_is_of_the_kind_that_was_given_with_it(kind: Kind) -> None:
    [one] = stated(("note", "Tags are signed with the release key.", {"kind": str(kind)}))
    assert (one.kind, one.source, one.text) == (kind, Source.NOTE, "Tags are signed with the release key.")


@pytest.mark.parametrize("metadata", [{}, {"kind": "gossip"}, {"kind": 7}, {"kind": None}])
def test_a_note_of_no_known_kind_is_a_note(metadata: dict[str, object]) -> None:
    assert [one.kind for one in stated(("note", "Tags are signed with the release key.", metadata))] == [Kind.NOTE]


def test_the_clients_own_title_is_a_heading_that_never_becomes_a_bullet() -> None:
    found = stated(("user", "Sort the menu."), ("title", "Menu sorted by season", {"source": "summary"}))
    assert [(one.kind, one.text) for one in found if one.source is Source.TITLE] == [
        (Kind.HEADING, "Menu sorted by season")
    ]


def test_a_summary_hands_over_the_task_with_which_a_session_begins() -> None:
    handed = (
        "compaction",
        "1. Primary Request and Intent:\n   - The user asked to import contacts from vCard files\n2. Current Work:\n x",
    )
    events = conversation(handed, ("assistant", "Photos of contacts are read now."))
    first = collect(events)[0].statements
    assert [one.text for one in first if one.kind is Kind.REQUEST] == ["import contacts from vCard files"]
    later = collect(events, conversation(("user", "Draw the ledger as a chart."), first=-5))[0].statements
    assert not [one for one in later if one.kind is Kind.REQUEST]


def test_people_who_talk_to_each_other_keep_their_names() -> None:
    found = stated(
        ("user", "Ann: I joined a climbing club in May."),
        ("assistant", "Bob: My brother climbs in the Alps every summer."),
        ("user", "Ann: We should all go there together."),
    )
    assert [one.text for one in found] == [
        "Ann: I joined a climbing club in May",
        "Bob: My brother climbs in the Alps every summer",
        "Ann: We should all go there together",
    ]
    assert {one.kind for one in found} == {Kind.SAID}


def test_turns_that_follow_are_those_in_which_the_user_speaks() -> None:
    after = conversation(*[turn for _ in range(6) for turn in (("user", "And the next one."), ("assistant", "Done."))])
    assert len(next_turns(after)) == 3
    assert next_turns(conversation(("assistant", "One more thing about the parser."))) == []


WHO = st.sampled_from(["user", "assistant", "tool", "note", "compaction", "title"])
PIECES = st.sampled_from(
    [
        "The cache is stale because it never expires. ",
        "Options:\n- keep it\n- drop it\n",
        "## Heading of a part\n",
        "no, not that. ",
        "You're right! ",
        '`code` and "quotes" (and more). ',
        "```\nfenced\n```\n",
        "| a | b |\n|---|---|\n| c | d |\n",
        "1. first thing to do\n2. second thing\n",
        "日本語のテキストです。",
        "Könntest du das prüfen? ",
        "Bash: make\nExit code 2\nerror: undefined symbol `x` in y.c\n",
        "\ud800 half a pair ",
        "\x00\x07\u202e",
        "x" * 300,
    ]
)
SAID = st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=8).map("".join))


@given(st.lists(st.tuples(WHO, SAID), max_size=8))
def test_every_statement_stands_in_its_event(turns: list[tuple[str, str]]) -> None:
    for one in stated(*turns):
        for each in one.evidence:
            assert 0 <= each.start < each.end <= len(one.event.text)
        assert one.event.text[one.start : one.end].strip()
        assert one.text
