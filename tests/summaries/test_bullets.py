"""Bullets: few, whole sentences, of the kinds that matter, spread over the turns, each with the words it rests on."""

from __future__ import annotations

import pytest

from mcp_memory.domain.nodes import Kind
from mcp_memory.summaries.extractive import summarize_segment

from .conversations import PORT, Turn, bullets, commit, conversation, edited, excerpts, question, summary, told


def kinds(*turns: Turn) -> list[Kind]:
    return [bullet.kind for bullet in summary(*turns).bullets]


def test_a_request_and_what_came_of_it_are_one_bullet_with_a_grip_to_each() -> None:
    events = conversation(
        ("user", "Make the export of orders asynchronous."),
        edited("export.py"),
        ("assistant", "The export now runs in the task `export_orders` and mails a link."),
    )
    found = summarize_segment(events, [])
    assert found.bullets[0].text == (
        "Make the export of orders asynchronous → The export now runs in the task `export_orders` and mails a link"
    )
    assert excerpts(found, events)[0] == [events[0].text, events[2].text]


def test_a_report_that_was_mended_is_told_as_fixed() -> None:
    turns = (
        ("user", "The basket crashes when the session expires."),
        edited("basket.py"),
        ("assistant", "Fixed the basket: items of an expired session move to the new one."),
    )
    assert Kind.FIXED in kinds(*turns)
    assert "Fixed: The basket crashes when the session expires → " in told(*turns)


def test_an_answer_in_the_words_of_the_question_is_told() -> None:
    shown = bullets(
        ("user", "check if git fetch works behind the proxy"), ("assistant", "`git fetch` works behind the proxy.")
    )
    assert shown == ["Asked: Check if git fetch works behind the proxy → `git fetch` works behind the proxy"]


@pytest.mark.parametrize(
    "said",
    ["Fixed: the basket crashes on empty carts.", "fix: totals are rounded twice", "Fixed — no flicker now."],
)
def test_that_something_is_fixed_is_not_cut_off(said: str) -> None:
    assert said.rstrip(".").lower() in told(("user", "How far is it?"), ("assistant", said)).lower()


def test_a_bullet_of_each_matter_rather_than_two_of_one() -> None:
    matters = ["boot loader", "CAN driver", "sensor hub", "power stage"]
    turns = [
        turn
        for name in matters
        for turn in (
            ("user", f"Document the {name} of the board."),
            ("assistant", f"Wrote a page on the {name}. It has a diagram of the {name}, and its registers are listed."),
        )
    ]
    shown = bullets(*turns)
    assert len(shown) <= 5
    assert [name for name in matters if not any(name in text for text in shown)] == []


def test_bullets_stand_in_the_order_in_which_things_were_said() -> None:
    events = conversation(
        ("user", "Rename the billing module."),
        edited("billing.py"),
        ("assistant", "Renamed the billing module to invoicing."),
        ("user", "Never rename its tables, reports depend on them."),
        ("assistant", "The tables keep their names."),
        commit("Rename billing to invoicing"),
    )
    found = summarize_segment(events, [])
    first = [
        min(texts.index(one.event_key) for one in bullet.evidence)
        for bullet in found.bullets
        for texts in [[one.key for one in events]]
    ]
    assert len(first) > 2
    assert first == sorted(first)


def test_what_is_repeated_is_told_once() -> None:
    shown = bullets(
        ("user", "Why does the importer skip empty lines?"),
        ("assistant", "The importer skips empty lines because the parser treats them as record ends."),
        ("tool", "Read: /home/ada/shop/parser.py\n..."),
        ("assistant", "So the importer skips empty lines, because its parser treats them as the end of a record."),
    )
    assert sum("skips empty lines" in text for text in shown) == 1


def test_a_lead_with_its_list_is_one_bullet() -> None:
    said = "Done. The release workflow now uses `retry@v3` with:\n- **max_attempts: 2**\n- **timeout_minutes: 60**\n"
    events = conversation(("assistant", said))
    found = summarize_segment(events, [])
    assert [bullet.text for bullet in found.bullets] == [
        "The release workflow now uses `retry@v3` with: max_attempts: 2; timeout_minutes: 60"
    ]
    assert excerpts(found, events)[0][0].endswith("- **timeout_minutes: 60**")


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (None, "Note: We deploy from the release branch only"),
        ("decision", "Decided: We deploy from the release branch only"),
        ("outcome", "We deploy from the release branch only"),
        ("rule", "Rule: We deploy from the release branch only"),
        ("open", "Open: We deploy from the release branch only"),
    ],
)
def test_a_note_of_any_kind_is_told_however_much_else_was_said(kind: str | None, shown: str) -> None:
    talk = [
        turn
        for name in ("parser", "printer", "scanner", "plotter", "router", "mapper")
        for turn in (
            ("user", f"Always keep the {name} fast, it must never block."),
            edited(f"{name}.py"),
            ("assistant", f"Fixed the {name}: it blocked because `{name}_lock` was held for 30 seconds."),
        )
    ]
    note: Turn = ("note", "We deploy from the release branch only.", {"kind": kind} if kind else {})
    assert [text for text in bullets(*talk, note) if text.rstrip(".") == shown]


def test_each_kind_is_told_with_its_label() -> None:
    shown = bullets(
        ("user", "Never write secrets to the log."),
        question("Which vault holds the keys?", "The one of the platform team", "A file on disk"),
        edited("log.py"),
        ("assistant", "The leak happened because `dump()` logs the whole environment of the process."),
        commit("Filter what the crash reporter dumps"),
    )
    assert {text.partition(": ")[0] for text in shown} >= {"Rule", "Decided", "Committed"}
    assert any("because `dump()` logs the whole environment" in text for text in shown)


@pytest.mark.parametrize(
    "fact",
    [
        "The uploader was limited to four connections, hence the queue.",
        "We turned down GraphQL, its cache cannot be shared.",
        "The importer moved to `intake.rs`, and the old one is gone.",
        "Nobody knows who reads the export topic, so it is left untouched.",
        "Invoices must never be changed after they were sent.",
    ],
)
def test_a_fact_said_once_outlasts_talk_that_comes_back(fact: str) -> None:
    talk = [
        f"The {one} hands the page to the {other}, and the {other} hands the page to the viewer."
        for one, other in [("reader", "parser"), ("parser", "layout"), ("layout", "canvas"), ("canvas", "window")]
    ] * 3
    said = [("assistant", text) for text in talk]
    shown = told(("user", "Walk me through the page viewer."), *said, ("assistant", fact), *said)
    assert fact.rstrip(".") in shown


def test_a_rule_outlasts_questions_in_passing() -> None:
    asides: list[Turn] = [
        ("user", f"what is in the {name} folder?") for name in ("parser", "printer", "scanner", "plotter", "router")
    ]
    answers: list[Turn] = [
        ("assistant", f"The {name} folder holds the {name} and its helpers.") for name in ("parser", "router")
    ]
    rule = ("user", "ok. The Lisbon branch must stay on the old tariff until June. what is in the mapper folder?")
    shown = told(asides[0], *answers, *asides[1:], rule, *answers)
    assert "The Lisbon branch must stay on the old tariff until June" in shown


def test_narration_praise_and_thanks_are_left_out() -> None:
    shown = told(
        ("user", "Make the export of orders asynchronous."),
        ("assistant", "Perfect! Let me check the exporter first."),
        ("tool", "Read: /home/ada/shop/export.py\n..."),
        ("assistant", "Great. Now let me look at the queue."),
        ("tool", "Read: /home/ada/shop/queue.py\n..."),
        ("assistant", "The export runs in a task and mails a link when it is ready."),
        ("user", "thanks a lot!"),
        ("assistant", "You're welcome! Let me know if you need anything else."),
    )
    assert not [words for words in ("check the exporter", "look at the queue", "welcome", "thanks") if words in shown]
    assert "mails a link when it is ready" in shown


def test_what_is_open_at_the_end_is_told_as_open() -> None:
    shown = bullets(
        ("user", "Translate the reminders."),
        edited("reminders.de.toml"),
        ("assistant", "Translated the reminders into German.\n\nThe French reminders still need a translator."),
    )
    assert [text for text in shown if "The French reminders still need a translator" in text]


def test_a_cause_is_told_with_its_sentence() -> None:
    shown = "\n".join(bullet.shown for bullet in summarize_segment(PORT, []).bullets)
    assert "`docker-compose.yml` maps Postgres to 5432" in shown
    assert "`settings.py` now reads DATABASE_PORT from the environment" in shown
    assert "Still open: the CI workflow has its own copy of the port" in shown


def test_a_long_sentence_is_cut_where_a_clause_ends() -> None:
    long = (
        "The scheduler assigns every render job to the worker with the shortest queue, which keeps the farm busy, but "
        "it forgets that some workers have no graphics card, so half of the jobs come back after an hour with an error "
        "and are put into the queue again, where they wait for the next free worker, which may be one without a card"
    )
    [shown] = bullets(("assistant", f"{long}."))
    assert len(shown) <= 220
    assert shown.endswith("…")
    assert long.startswith(shown.rstrip("…"))
    assert shown.rstrip("…").split()[-1] not in {"and", "or", "but", "the", "a", "with", "to", "which", "some"}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Der Index ist angelegt, der Abgleich läuft jetzt in vier Minuten durch.", "in vier Minuten"),
        ("La page des tarifs affiche de nouveau les remises depuis le déploiement.", "affiche de nouveau les remises"),
        ("La tabla de precios muestra otra vez los descuentos de cada cliente.", "muestra otra vez los descuentos"),
        ("价格表现在会显示每个客户的折扣。", "价格表现在会显示每个客户的折扣"),
        ("価格表に割引が表示されるようになりました。", "価格表に割引が表示されるようになりました"),
    ],
)
def test_other_languages_are_told_as_they_were_said(said: str, kept: str) -> None:
    events = conversation(("assistant", said))
    found = summarize_segment(events, [])
    assert kept in found.bullets[0].text
    assert excerpts(found, events)[0] == [said]


def test_a_german_conversation_tells_cause_outcome_and_what_is_open() -> None:
    shown = told(
        ("user", "Guten Morgen, der nächtliche Abgleich der Bestände dauert seit dem Umzug sechs Stunden."),
        ("assistant", "Ich sehe mir zuerst die Abfragen an."),
        ("tool", "Read: /src/abgleich.py\ncode"),
        ("assistant", "Die Ursache: Auf dem neuen Server fehlt der Index auf `bestand.artikel_id`."),
        ("user", "Ok, leg ihn an. Was ist mit den Statistiken?"),
        ("tool", "Edit: /src/indizes.sql\nok"),
        ("assistant", "Der Index ist angelegt, der Abgleich läuft jetzt in vier Minuten durch."),
        ("assistant", "Die Statistiken sind noch nicht aktualisiert, das braucht ein Wartungsfenster."),
    )
    assert "fehlt der Index" in shown
    assert "in vier Minuten" in shown
    assert "noch nicht aktualisiert" in shown
    assert "Ich sehe mir" not in shown


def test_chats_keep_their_speakers() -> None:
    shown = bullets(
        ("user", "Ann: Hey Bob! How have you been?"),
        ("assistant", "Bob: Wow, good to see you! What's new?"),
        ("user", "Ann: I joined a climbing club last Tuesday and it was so much fun."),
        ("assistant", "Bob: That's awesome, Ann! Do you like it?"),
        ("user", "Ann: Yes! My sister is going to visit me in March."),
    )
    assert "Ann: I joined a climbing club last Tuesday and it was so much fun" in shown
    assert all(text.startswith(("Ann: ", "Bob: ")) for text in shown)


def test_the_name_of_who_speaks_stands_once_in_a_bullet() -> None:
    shown = told(
        ("user", "Ida: I sold the red boat on Sunday.\n\nWe bought a kayak for the lake instead."),
        ("assistant", "Ben: A kayak is easier to carry.\n\nI rented one in Norway last summer."),
        ("user", "Ida: We try it on Friday near the old mill."),
        ("assistant", "Ben: Friday suits me, I bring the second paddle."),
    )
    assert "kayak for the lake" in shown
    assert all(line.count("Ida: ") <= 1 and line.count("Ben: ") <= 1 for line in shown.splitlines())
