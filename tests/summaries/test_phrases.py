"""Sentences of many sorts: what they are taken for, and what of them makes a title or a bullet."""

from __future__ import annotations

import pytest

from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.sentences import clipped
from mcp_memory.summaries.cues import assistant_kind, unopened, user_kind, without_politeness
from mcp_memory.summaries.phrases import phrases, readability

from .conversations import bullets, summary, title


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (
            "pip wants to build the whole scipy wheel although I only need a patch release. Find a way around it",
            "Pip wants to build the whole scipy wheel",
        ),
        (
            "how does the scheduler decide which job starts first? I can't follow queue.py",
            "How does the scheduler decide",
        ),
        ("Print a hint when the cache is empty", "Print a hint when the cache is empty"),
        ("I'm currently working on the tax form. The totals of page two are wrong.", "Totals of page two wrong"),
        ("I'd rather drop the second index of the orders", "Drop the second index of the orders"),
        ("two workers lose a job, how do I stop that without a lock?", "Two workers lose a job"),
    ],
)
def test_more_ways_of_saying_what_is_wanted(said: str, named: str) -> None:
    assert title(("user", said)).startswith(named)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("retry failed uploads three times", Kind.REQUEST),
        ("What I'd really like is that you look at the importer", Kind.REQUEST),
        ("the gateway is crashlooping since noon", Kind.REPORT),
        ("labels overlap on narrow phones", Kind.REPORT),
        ("page load went from 2s to 6s after the redesign, find out what changed", Kind.REQUEST),
        ("mention that the stamp must be younger than a minute", Kind.REQUEST),
        ("年度の切り替えのテストも追加して", Kind.REQUEST),
        ("Ahora añade también un límite", Kind.REQUEST),
    ],
)
def test_more_ways_in_which_users_ask_and_report(said: str, kind: Kind) -> None:
    assert user_kind(said) is kind


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("The gateway is back: all eight pods answer", Kind.OUTCOME),
        ("Das Problem ist, dass der Name zweimal gespeichert wird", Kind.CAUSE),
        ("El problema es que el botón no recibe el estado", Kind.CAUSE),
        ("Fehlende Namen werden jetzt als leer gespeichert", Kind.OUTCOME),
        ("Alle 58 Tests laufen durch.", Kind.PLANNED),
        ("Las 44 pruebas pasan.", Kind.PLANNED),
        ("テストは31件すべて成功しています。", Kind.PLANNED),
    ],
)
def test_more_ways_in_which_outcomes_and_causes_are_told(said: str, kind: Kind) -> None:
    assert assistant_kind(said) is kind


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (
            "I'm new here. give me an overview of how a parcel gets from the shop to the van",
            "How a parcel gets from the shop to",
        ),
        ("need a script that sorts my scans by year, like 2026/scan-1.pdf", "Script that sorts my scans by year"),
        (
            "Bonjour, les factures du client partent sans numéro depuis la mise à jour de ce matin, tu peux regarder ?",
            "Les factures du client partent sans numéro",
        ),
        ("用户上传照片时超过一百张就失败,帮我看一下怎么处理", "用户上传照片时超过一百张就失败"),
    ],
)
def test_still_more_ways_of_saying_what_is_wanted(said: str, named: str) -> None:
    assert title(("user", said)).startswith(named)


def test_a_consequence_tells_more_than_a_plain_statement() -> None:
    assert assistant_kind("The tags stay in the first file, so readers pass over the second") is Kind.FINDING
    assert assistant_kind("The tags stay in the first file") is Kind.STATED


def test_pairs_of_unspaced_words_are_no_terms() -> None:
    told = summary(
        ("user", "订单查询太慢,订单查询要十秒"),
        ("assistant", "订单查询没有索引,所以订单查询会扫描全部订单。已添加索引。"),
    )
    assert told.keywords
    assert not [word for word in told.keywords if " " in word]


def test_praise_is_left_out_only_where_it_stands_alone() -> None:
    assert (
        without_politeness("good catch on the tax rate. use the new one")
        == "good catch on the tax rate. use the new one"
    )
    assert without_politeness("right click opens the wrong menu") == "right click opens the wrong menu"
    assert without_politeness("Good catch, use the new rate") == "use the new rate"
    assert without_politeness("great now use the new rate") == "use the new rate"


def test_thanks_in_other_languages_are_left_out() -> None:
    assert "Asked: añade un límite de tamaño" in bullets(("user", "Genial. Ahora añade un límite de tamaño"))
    assert "Asked: 画像のテストも追加して" in bullets(("user", "ありがとう。画像のテストも追加して"))


def test_an_element_in_code_keeps_its_name() -> None:
    told = bullets(("user", "use links"), ("assistant", 'I replaced `<Button kind="ghost">` with `<a>` in the footer.'))
    assert "I replaced `Button` with `a` in the footer" in told
    told = bullets(
        ("user", "why?"), ("assistant", "The slashes of `https://feeds.acme.dev/all` start a comment, so it is cut.")
    )
    assert "The slashes of `feeds.acme.dev` start a comment, so it is cut" in told


def test_a_clause_that_depends_on_another_keeps_its_verb() -> None:
    told = [phrase.text for phrase in phrases("Use a default when the name is empty")]
    assert "Use a default when the name is empty" in told
    assert "Name empty in the list" in [phrase.text for phrase in phrases("The name is empty in the list")]


def test_a_cut_line_ends_neither_with_a_comma_nor_with_a_joining_word() -> None:
    text = "Look at the importer and at the exporter, tell me what the slowest part of both is, and then make it fast"
    assert clipped(text, 94) == "Look at the importer and at the exporter, tell me what the slowest part of both is…"
    assert clipped("one two three four five six, seven eight", 29) == "one two three four five six…"


def test_a_phrase_ends_neither_before_its_pronoun_nor_where_one_starts_to_ask() -> None:
    said = "Migration 0042 adds the column, and the job fills it in 241 batches of 5,000 rows"
    assert not [phrase.text for phrase in phrases(said) if phrase.text.endswith("job fills")]
    said = "I'm trying to mend the roof of the shed and was wondering if you could list the tools"
    assert {phrase.text for phrase in phrases(said)} == {"Mend the roof of the shed"}


def test_a_word_of_order_is_left_out_only_before_a_new_start() -> None:
    assert unopened("Next would be the index of the orders") == "Next would be the index of the orders"
    assert unopened("First draft of the letter is in place") == "First draft of the letter is in place"
    assert unopened("Next, I'll add the index") == "I'll add the index"
    assert unopened("First rename the page") == "rename the page"


def test_a_title_is_not_cut_within_code() -> None:
    said = "Two broke: `assert { type: 'json' }` is now `with { type: 'json' }`, and MD4 hashes in `sums.ts` are gone"
    found = [phrase.text for phrase in phrases(said)]
    assert found
    assert not [text for text in found if text.count("{") != text.count("}") or " ," in text]


def test_a_wish_for_advice_is_a_request() -> None:
    assert user_kind("I was wondering if you could look over the tax form of the club") is Kind.REQUEST
    assert title(("user", "I like the idea of a second till at the entrance")) == "Second till at the entrance"


def test_what_is_said_of_a_thing_does_not_make_it_vague() -> None:
    assert readability("Mirror should skip scans that did not change") == readability(
        "Mirror should skip scans of last year"
    )
    assert readability("Stop that without a lock") < readability("Stop jobs without a lock")
