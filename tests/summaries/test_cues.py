"""The wordings by which sentences are told apart, each tried only where its word stands."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.text import strip_markup
from mcp_memory.summaries.cues import (
    IMPERATIVES,
    Cue,
    PlainWording,
    assistant_kind,
    gives_figures,
    opens_with_task,
    user_kind,
    words_of,
)
from mcp_memory.summaries.extractive import summarize_segment
from mcp_memory.summaries.messages import is_clean, without_places

from .conversations import conversation


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("The empty invoices came from a stale price list.", Kind.CAUSE),
        ("What broke the upload was a renamed header.", Kind.CAUSE),
        ("We ruled out MongoDB for the ledger.", Kind.DECISION),
        ("Both hooks ran, so we kept only the second.", Kind.DECISION),
        ("I bumped the minimum version of the client.", Kind.OUTCOME),
        ("The exporter now rejects rows without a date.", Kind.OUTCOME),
        ("The import of refunds is tracked as SHOP-812.", Kind.OPEN),
        ("The old column may go as soon as the report is switched.", Kind.OPEN),
        ("Prices must be stored in cents.", Kind.RULE),
        ("A voucher can be used only once, and only in the shop that sold it, by hand.", Kind.RULE),
        ("The login page is flaky on Safari.", Kind.FINDING),
        ("The nightly job takes 14 minutes.", Kind.FIGURE),
        ("The sandbox listens on port 8643.", Kind.FIGURE),
        ("The parser hands its tree to the printer.", Kind.STATED),
        ("I read the parser and the printer.", Kind.STATED),
        ("Let me look at the printer first.", Kind.PLANNED),
    ],
)
def test_an_assistants_sentence_is_told_by_its_wording(sentence: str, kind: Kind) -> None:
    assert assistant_kind(sentence) is kind


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("The Porto office must not see salaries.", Kind.RULE),
        ("I always mix up the two.", Kind.SAID),
        ("It crashes on every second start.", Kind.REPORT),
        ("Rename it. then update the docs", Kind.REQUEST),
        ("ok, go ahead", Kind.NOISE),
    ],
)
def test_a_users_sentence_is_told_by_its_wording(sentence: str, kind: Kind) -> None:
    assert user_kind(sentence) is kind


def test_a_word_alone_is_enough_only_where_no_expression_is_given() -> None:
    cue = Cue(["because", r"led come :: \b(?:led to|come from)\b"])
    said = {
        "it stopped because of that": True,
        "this led to that": True,
        "he led the way": False,
        "they come from": True,
        "becauses": False,
        "because_of": False,
    }
    assert {text: cue.fits(text, words_of(text)) for text in said} == said


@given(st.text(alphabet="ab A.,`\"'(_*<~|/:w]\\-#1\n\t ", max_size=40))
def test_a_clean_line_is_one_that_cleaning_leaves_alone(raw: str) -> None:
    if is_clean(raw):
        assert " ".join(without_places(strip_markup(raw)).split()) == raw


@given(st.text(alphabet="led to_-1,é", max_size=30))
def test_a_phrase_stands_where_an_expression_would_find_it(low: str) -> None:
    assert PlainWording("led to").search(low) is (re.search(r"\bled to\b", low) is not None)


@given(st.text(alphabet="addo n'tx-_1é", max_size=8))
def test_a_task_is_told_by_its_first_word(low: str) -> None:
    plainly = re.compile(rf"(?:{'|'.join(sorted(IMPERATIVES))})\b")
    assert opens_with_task(low) is (plainly.match(low) is not None)


@pytest.mark.parametrize(
    "sentence",
    [
        "It takes 14 ms",
        "It costs $5 percent",
        "Up to ~ 3.5 GB of memory",
        "about 30%",
        "since v1.2",
        "with 3.11.7 only",
        "on port 80",
        "a rate of 0.5",
        "from `5s` to `6s`",
        "on 2026-11-02",
        "on November 2",
        "the 3rd of May",
    ],
)
def test_a_number_that_one_would_look_up_is_a_figure(sentence: str) -> None:
    assert gives_figures(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "no number at all, in ms",
        "line 14 of it",
        "config.go:12 ms",
        "build-5 days",
        "x10.5",
        "issue #3 hours",
        "may 10.5.",
        "10 ms(x)",
        "A2026-11-02",
    ],
)
def test_any_other_number_is_none(sentence: str) -> None:
    assert not gives_figures(sentence)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Könntest du den Export der Rechnungen beschleunigen?", Kind.REQUEST),
        ("Schreib einen Test für den Kalender", Kind.REQUEST),
        ("Wir sollten die Passwörter neu verschlüsseln", Kind.REQUEST),
        ("Der Druck der Etiketten funktioniert seit Montag nicht", Kind.REPORT),
        ("Wir bleiben bei Postgres, weil das Team es kennt", Kind.DECISION),
        ("Kundennummern dürfen nie wiederverwendet werden", Kind.RULE),
        ("Peux-tu ajouter un filtre par ville ?", Kind.REQUEST),
        ("Il faut aussi traduire les erreurs", Kind.REQUEST),
        ("Le bouton n'enregistre plus les brouillons", Kind.REPORT),
        ("On garde Redis, parce que la migration coûte trop cher", Kind.DECISION),
        ("¿Podrías mover los informes a otra página?", Kind.REQUEST),
        ("Añade un índice a la tabla de pedidos", Kind.REQUEST),
        ("El inicio de sesión no funciona en móviles", Kind.REPORT),
        ("Decidimos usar colas, porque los correos tardan demasiado", Kind.DECISION),
        ("検索結果を日付順に並べ替えてください", Kind.REQUEST),
        ("保存ボタンを押すとエラーになります", Kind.REPORT),
        ("画像はS3に保存することにしました", Kind.DECISION),
        ("麻烦把登录页改成中文", Kind.REQUEST),
        ("上传大文件时总是失败", Kind.REPORT),
        ("决定改用消息队列", Kind.DECISION),
    ],
)
def test_a_users_words_are_understood(said: str, kind: Kind) -> None:
    assert user_kind(said) is kind


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Das liegt daran, dass der Zeitstempel ohne Zeitzone gespeichert wird", Kind.CAUSE),
        ("Ich habe die doppelte Abfrage in `kunden.py` entfernt", Kind.OUTCOME),
        ("Ich verwende eine Warteschlange statt eines Sperrvermerks", Kind.DECISION),
        ("Die Übersetzung der Fehlermeldungen steht noch aus", Kind.OPEN),
        ("Le problème vient du cache des traductions", Kind.CAUSE),
        ("J'ai déplacé la validation dans `forms.py`", Kind.OUTCOME),
        ("Il reste à convertir les anciennes factures", Kind.OPEN),
        ("El fallo se debe a una fecha sin zona horaria", Kind.CAUSE),
        ("He movido la validación a `forms.py`", Kind.OUTCOME),
        ("Queda pendiente migrar las facturas antiguas", Kind.OPEN),
        ("原因はタイムゾーンの変換漏れです", Kind.CAUSE),
        ("変換処理を `dates.py` に追加しました", Kind.OUTCOME),
        ("古いデータの移行はまだ終わっていません", Kind.OPEN),
        ("问题的原因是时区没有转换", Kind.CAUSE),
        ("已经添加了转换函数和测试", Kind.OUTCOME),
        ("旧数据还没有迁移", Kind.OPEN),
    ],
)
def test_an_answer_is_understood(said: str, kind: Kind) -> None:
    assert assistant_kind(said) is kind


@pytest.mark.parametrize(
    "said",
    [
        "The die size per wafer plus the yield decides about the price",
        "He avoids the garde manger station",
        "The due date was set a week ago",
        "Comment on the pull request when you are ready",
    ],
)
def test_english_words_that_other_languages_share_mean_what_they_do_in_english(said: str) -> None:
    assert assistant_kind(said) in (Kind.STATED, Kind.FIGURE)


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (
            "Hallo, kannst du dir bitte mal den Versand der Mahnungen ansehen? Seit gestern bleibt er hängen.",
            "Den Versand der Mahnungen ansehen",
        ),
        ("Bonjour, la page des tarifs n'affiche plus les remises.", "La page des tarifs n'affiche plus les remises"),
        (
            "La tabla de precios no muestra los descuentos. ¿Puedes mirarlo?",
            "La tabla de precios no muestra los descuentos",
        ),
        ("请帮我看一下为什么价格表不显示折扣。", "价格表不显示折扣"),
        ("価格表に割引が表示されない不具合を直してください。", "価格表に割引が表示されない不具合"),
        (
            "Warum werden die Rechnungen seit gestern doppelt verschickt?",
            "Warum werden die Rechnungen seit gestern doppelt verschickt",
        ),
        ("Ciao, puoi aggiungere un filtro alla lista degli ordini?", "Aggiungere un filtro alla lista degli ordini"),
        ("Set the timeout per user plus some jitter", "Set the timeout per user plus some jitter"),
    ],
)
def test_the_title_names_the_matter_without_politeness(said: str, named: str) -> None:
    assert summarize_segment(conversation(("user", said)), []).title == named


def test_a_german_conversation_tells_cause_outcome_and_what_is_open() -> None:
    events = conversation(
        ("user", "Guten Morgen, der nächtliche Abgleich der Bestände dauert seit dem Umzug sechs Stunden."),
        ("assistant", "Ich sehe mir zuerst die Abfragen an."),
        ("tool", "Read: /src/abgleich.py\ncode"),
        ("assistant", "Die Ursache: Auf dem neuen Server fehlt der Index auf `bestand.artikel_id`."),
        ("user", "Ok, leg ihn an. Was ist mit den Statistiken?"),
        ("tool", "Edit: /src/indizes.sql\nok"),
        ("assistant", "Der Index ist angelegt, der Abgleich läuft jetzt in vier Minuten durch."),
        ("assistant", "Die Statistiken sind noch nicht aktualisiert, das braucht ein Wartungsfenster."),
    )
    summary = summarize_segment(events, [])
    told = [bullet.shown for bullet in summary.bullets]
    assert any("fehlt der Index" in text for text in told)
    assert any("in vier Minuten" in text for text in told)
    assert any("noch nicht aktualisiert" in text for text in told)
    assert not any("Ich sehe mir" in text for text in told)
    assert "Abgleich der Bestände" in summary.title
    assert not {"seit", "dem", "der", "jetzt"} & set(summary.keywords)
