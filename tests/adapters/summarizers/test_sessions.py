"""Sessions of many sorts: each is titled by its task and told by what was asked, decided and left open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcp_memory.adapters.summarizers.cues import Kind, assistant_kind, unopened, user_kind, without_politeness
from mcp_memory.adapters.summarizers.phrases import phrases
from mcp_memory.adapters.summarizers.rollups import roll_up
from mcp_memory.adapters.summarizers.segments import summarize_segment
from mcp_memory.adapters.summarizers.sentences import clipped
from mcp_memory.domain.summaries import SegmentSummary
from mcp_memory.domain.toc import Level

from .conversations import conversation, segment_node


def summary(*turns: tuple[str, str]) -> SegmentSummary:
    return summarize_segment(conversation(*turns), [])


def title(*turns: tuple[str, str]) -> str:
    return summary(*turns).title


def bullets(*turns: tuple[str, str]) -> list[str]:
    return [bullet.text for bullet in summary(*turns).bullets]


def test_a_session_is_named_by_the_words_with_which_it_begins() -> None:
    turns = (
        (
            "user",
            "The nightly backup of the photo archive stops after two hours. Our old server took four. What is wrong?",
        ),
        ("assistant", "The storage box closes idle connections, and the backup pauses while it hashes large files."),
        ("user", "use smaller chunks then"),
        ("tool", "Edit: /ops/backup.toml\nok"),
        ("assistant", "I'd also suggest a weekly prune of old snapshots, since the box is nearly full."),
        ("user", "yes prune weekly, keep four snapshots, log the prune to syslog"),
        ("assistant", "The prune of old snapshots now runs weekly and logs to syslog."),
    )
    assert title(*turns) == "Nightly backup of the photo archive stops after two hours"


def test_what_leads_up_to_a_request_names_the_matter_if_the_request_does_not() -> None:
    named = title(
        (
            "user",
            "I'm writing a guide about soldering irons for the club. Half an hour to read. Help me find a good order",
        ),
        ("assistant", "Start with what can go wrong, then the tools, then the first joint."),
        ("user", "I'd rather leave out the flux, we never use it"),
    )
    assert named == "Writing a guide about soldering irons for the club"


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (
            "pip wants to build the whole scipy wheel although I only need a patch release. Find a way around it",
            "Pip wants to build the whole scipy wheel",
        ),
        ("how does the scheduler decide which job starts first? I can't follow queue.py", "How the scheduler decides"),
        ("Print a hint when the cache is empty", "Print a hint when the cache is empty"),
        ("I'm currently working on the tax form. The totals of page two are wrong.", "Totals of page two wrong"),
        ("I'd rather drop the second index of the orders", "Drop the second index of the orders"),
        ("two workers lose a job, how do I stop that without a lock?", "Two workers lose a job"),
    ],
)
def test_more_ways_of_saying_what_is_wanted(said: str, named: str) -> None:
    assert title(("user", said)).startswith(named)


def test_a_talk_about_something_is_named_by_it() -> None:
    said = (
        "we have to talk about the seating plan of the theatre. Lou wants numbered rows because guests complain. what "
        "do you think?"
    )
    named = title(
        ("user", said),
        ("assistant", "Numbered rows cost one day of work; free seating needs more ushers."),
        ("user", "decision: rows are numbered, ushers stay. note it down"),
        ("assistant", "Noted in `plan.md`: rows are numbered, ushers stay."),
    )
    assert named == "Seating plan of the theatre"


def test_a_whole_question_is_not_torn_to_make_room_for_a_remark() -> None:
    named = title(
        ("user", "how does the importer decide where a broken record ends? the code in records.c is hard to follow"),
        ("assistant", "It scans for the next header and ends the broken record there."),
        ("user", "ok so the header counts, fine. where is the limit set?"),
        ("assistant", "The limit is read from `limits.h`."),
    )
    assert named == "How the importer decides where a broken record ends"


def test_a_plan_that_was_agreed_to_names_its_session() -> None:
    plan = (
        "ExitPlanMode: # Offline mode of the field app ## Steps 1. Cache the forms 2. Queue the uploads\n"
        "User has approved"
    )
    turns = (
        ("user", "We want an offline mode. Forms should open without network. Please plan it first"),
        ("tool", plan),
        ("tool", "Edit: /app/forms.ts\nok"),
        ("assistant", "Forms now open from the cache and uploads wait in a queue."),
        ("user", "the queue should show three states though: waiting / sending / failed, not just a dot"),
        ("assistant", "The queue now shows its three states."),
    )
    assert title(*turns) == "Offline mode of the field app"
    below = (
        "ExitPlanMode\nUser has approved your plan.\n\n## Approved Plan:\n"
        "# Implementation plan: Offline forms in the app\n\nText"
    )
    assert "Offline forms in the app" in title(("tool", below), ("tool", "Edit: /app/forms.ts\nok"))
    turned_down = plan.replace("User has approved", "The user doesn't want to proceed with this tool use.")
    assert title(turns[0], ("tool", turned_down), *turns[2:]) != "Offline mode of the field app"


def test_a_review_is_called_one() -> None:
    named = title(
        ("user", "<command-name>/review</command-name>\n<command-args>88</command-args>"),
        (
            "assistant",
            "# Review of PR #88: Sign invoices with the new key\n\n## Overview\nThe PR signs invoices on upload.\n\n"
            "### Signature ignores the attachments\nOnly the first page is signed. This must be fixed before merging.",
        ),
    )
    assert named == "Review of PR #88: Sign invoices with the new key"


def test_an_announced_change_with_its_reason_is_a_decision() -> None:
    said = "I'll keep the old parser and call it from the new one, because the archive importer still depends on it."
    assert assistant_kind(said) is Kind.DECISION
    told = bullets(
        ("user", "merge the parser branch into main"),
        ("assistant", said),
        ("tool", "Edit: /src/parser.py\nok"),
        ("tool", "Bash: pytest -q\n212 passed in 3.20s"),
        ("assistant", "Merged. The old parser is called from the new one."),
    )
    assert "Keep the old parser and call it from the new one, because the archive importer still depends on it" in told


def test_a_run_in_which_nothing_failed_gives_way_to_what_was_said() -> None:
    turns = (
        ("user", "the invoices need a due date"),
        ("tool", "Edit: /src/invoice.py\nok"),
        ("assistant", "I'll add the due date to the model rather than to the template, so exports get it as well."),
        ("tool", "Bash: npm run test:all\n214 passed, 3 skipped in 41.10s"),
        ("assistant", "Invoices now have a due date of 14 days."),
        ("user", "and reminders for those that are late"),
        ("assistant", "Reminders now go out after three days, at most twice."),
        ("assistant", "Open: the reminders are not translated yet."),
    )
    assert not [text for text in bullets(*turns) if "214 passed" in text]


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


def test_what_an_editor_puts_before_a_request_is_not_the_users() -> None:
    told = summary(
        (
            "user",
            "# Context from my IDE setup:\n\n## Active file: tools/mirror.py\n\n## Open tabs:\n"
            "- mirror.py: tools/mirror.py\n- NOTES.md: NOTES.md\n\n"
            "## My request for Codex:\nthe mirror should keep the times of the files it copies",
        ),
        ("assistant", "`copy2` keeps the times, so the mirror now uses it."),
    )
    assert told.title == "Mirror should keep the times of the files it copies"
    assert told.bullets[0].text == "Asked: the mirror should keep the times of the files it copies"
    assert "NOTES.md" not in told.keywords


def test_whatever_a_user_opens_with_is_told_unless_it_leads_up_to_more() -> None:
    turns = (
        ("assistant", "The doors in `Hall.scene` lost their flag in the last commit, so the path ignores them."),
        ("user", "ok set the flag on the model then"),
        ("tool", "Edit: /models/Door.model\nok"),
        ("assistant", "`Door.model` now carries the flag, so every hall that uses it gets it."),
        ("user", "works. now the frame rate drops to 20 in the hall with many guests"),
        ("assistant", "Every guest asks for its path in each frame, which is 4,800 queries per second."),
        ("assistant", "Paths are now asked for every 0.25 s, and only if the door moved."),
    )
    assert "User: guests run through the doors since i built the paths again" in bullets(
        ("user", "guests run through the doors since i built the paths again"), *turns
    )
    background = (
        "A bit of background first: the hall was built by Ada two years ago and nobody has touched it since.\n\n"
    )
    led_up = bullets(("user", f"{background}Please find out why the guests run through the doors."), *turns)
    assert not [text for text in led_up if "background" in text]


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
            "Factures du client partent sans numéro",
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


def test_levels_of_logs_and_answers_of_one_word_are_no_keywords() -> None:
    log = "".join(f"2026-04-0{day} 10:00:0{day} INFO worker-{day} ready queue=mails\n" for day in range(1, 8))
    told = summary(
        ("user", f"the mail worker never starts\n\n{log}"),
        ("assistant", "`MailWorker` waits for the `outbox` table, which the migration has not made."),
        ("user", "continue"),
        ("assistant", "The migration now makes the `outbox` table before `MailWorker` starts."),
        ("user", "continue"),
    )
    assert "MailWorker" in told.keywords
    assert not {"INFO", "continue"} & set(told.keywords)


def test_a_day_names_each_of_its_sessions_before_it_names_one_twice() -> None:
    children = [
        replace(
            segment_node(number, named, [f"Asked: {named}", f"{named} was done with {word}"], (word, f"{word}.py")),
            session_id=session,
        )
        for number, (session, named, word) in enumerate(
            [
                ("a", "Move the accounts to new keys", "accounts"),
                ("a", "Backfill command fills the key column in batches", "backfill"),
                ("a", "Key column made mandatory after the backfill", "mandatory"),
                ("b", "Print labels in the second warehouse", "labels"),
                ("c", "Send the newsletter through a queue", "newsletter"),
            ]
        )
    ]
    topic = roll_up(Level.DAY, children).topic
    assert "labels" in topic
    assert "newsletter" in topic


def test_a_product_keeps_its_capital_at_the_start_of_a_theme() -> None:
    child = segment_node(1, "Terraform plan replaces the disks", ["Asked: terraform plan replaces the disks, why?"])
    assert roll_up(Level.DAY, [child]).topic == "Terraform plan replaces the disks"
    said = ["Asked: Mango price list is wrong", "The list of 2025 Mango prices was read"]
    assert roll_up(Level.DAY, [segment_node(1, "Mango price list is wrong", said)]).topic == "Mango price list is wrong"
    plain = segment_node(1, "Basket keeps old prices", ["Reported: the basket keeps old prices"])
    assert roll_up(Level.DAY, [plain]).topic == "basket keeps old prices"


def test_the_subject_of_a_commit_names_what_short_answers_do_not() -> None:
    named = title(
        ("user", "fix it"),
        ("tool", "Bash: npm test\nExit code 1\n 1 failed, 80 passed"),
        ("assistant", "`roundPrice` now rounds on whole cents."),
        ("user", "no"),
        ("user", "use big.js"),
        ("tool", "Edit: /src/price.ts\nok"),
        (
            "tool",
            "Bash: git commit -F msg\n[main 1f2e3d4] Round prices of all baskets with big.js\n",
        ),
        ("assistant", "Pushed."),
    )
    assert named == "Round prices of all baskets with big.js"


def test_a_phrase_does_not_end_before_its_pronoun() -> None:
    said = "Migration 0042 adds the column, and the job fills it in 241 batches of 5,000 rows"
    assert not [phrase.text for phrase in phrases(said) if phrase.text.endswith("job fills")]


def test_a_merge_is_told_apart_by_what_it_touched() -> None:
    named = title(
        ("user", "merge main into my branch"),
        ("tool", "Edit: /src/tax/rounding.py\nok"),
        ("assistant", "Merged. Your fix moved to `rounding.py`."),
    )
    assert named == "Merge main into my branch: rounding.py"


def test_a_word_of_order_is_left_out_only_before_a_new_start() -> None:
    assert unopened("Next would be the index of the orders") == "Next would be the index of the orders"
    assert unopened("First draft of the letter is in place") == "First draft of the letter is in place"
    assert unopened("Next, I'll add the index") == "I'll add the index"
    assert unopened("First rename the page") == "rename the page"


def test_what_is_about_to_be_done_is_told_only_where_little_else_is() -> None:
    plan = ("assistant", "Let me check the state of the importer to see what was in progress.")
    told = bullets(
        plan,
        ("assistant", "The importer was changed to return None for missing rows."),
        ("assistant", "Two callers of the importer do not handle None yet."),
        ("assistant", "The tests of the importer cover neither of them."),
    )
    assert told
    assert not [text for text in told if text.startswith("Check")]
    assert bullets(plan) == ["Check the state of the importer to see what was in progress"]
