"""Conversations in other languages: what is asked, found, decided, done and left open is told apart, and named."""

from __future__ import annotations

import pytest

from mcp_memory.domain.nodes import Kind
from mcp_memory.summaries.cues import assistant_kind, user_kind
from mcp_memory.summaries.extractive import summarize_segment

from .conversations import conversation


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
