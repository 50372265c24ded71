"""Sessions of many sorts: each is titled by its task and told by what was asked, decided and left open."""

from __future__ import annotations

from dataclasses import replace

from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.toc import Level
from mcp_memory.summaries.cues import assistant_kind
from mcp_memory.summaries.extractive import summarize_segment
from mcp_memory.summaries.rollups import roll_up

from .conversations import bullets, conversation, segment_node, summary, title


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
    further = (
        ("user", "Bonjour, les factures du client partent sans numéro, tu peux regarder ?"),
        ("assistant", "Le numéro vient de la file d'attente, qui est vide depuis hier."),
        ("tool", "Edit: /src/factures.php\nok"),
        ("assistant", "J'ai corrigé la file d'attente des factures."),
        (
            "user",
            "Super. Il faudrait aussi prévenir les clients qui ont reçu une facture sans numéro, combien sont-ils ?",
        ),
        ("assistant", "143 clients ont reçu une facture sans numéro."),
    )
    assert title(*further) == "Les factures du client partent sans numéro"


def test_what_leads_up_to_a_request_names_the_matter_if_the_request_does_not() -> None:
    named = title(
        (
            "user",
            "I'm writing a guide about soldering irons for the club. Half an hour to read. Help me find a good order",
        ),
        ("assistant", "Start with what can go wrong with flux, then the tools, then the first joint."),
        ("user", "drop the chapter about flux, flux is never used in the club. and put the flux warnings last"),
        ("assistant", "Then the chapter about flux is gone and the flux warnings come last."),
    )
    assert named.startswith("Writing a guide about soldering irons")


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
    assert named == "How does the importer decide where a broken record ends"


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
            "# Review of PR #88: Sign invoices with the key\n\n## Overview\nThe PR signs invoices on upload.\n\n"
            "### Signature of invoices ignores the attachments of invoices\nOnly the first page of invoices is signed. "
            "The attachments of invoices have no signature. This must be fixed.",
        ),
    )
    assert named == "Review of PR #88: Sign invoices with the key"


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
    assert told.bullets[0].shown == "Asked: the mirror should keep the times of the files it copies"
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


def test_levels_of_logs_and_answers_of_one_word_are_no_keywords() -> None:
    log = "".join(f"2026-04-0{day} 10:00:0{day} INFO [worker-{day}] poll depth={day}\n" for day in range(1, 8))
    told = summary(
        ("user", f"the mail worker never starts\n\n{log}"),
        ("assistant", "`MailWorker` waits for the `outbox` table, which the migration has not made."),
        ("user", "continue"),
        ("assistant", "The migration now makes the `outbox` table before `MailWorker` starts."),
        ("user", "continue"),
    )
    assert "MailWorker" in told.keywords
    assert not {"INFO", "poll", "continue"} & set(told.keywords)


def test_a_day_names_each_of_its_sessions_before_it_names_one_twice() -> None:
    rows = [
        ("a", "Font of the labels missing", ["Error: font of the labels missing"], ("labels.py", "font")),
        ("b", "Look for every place that sends mails", ["Asked: look for every place that sends mails"], ("queue",)),
        ("c", "Move the accounts to keys", ["Asked: move the accounts to keys", "Both run"], ("accounts", "keys")),
        ("c", "Command key_fill adds the column", ["Command `key_fill` adds the column"], ("key_fill", "column")),
    ]
    children = [
        replace(segment_node(number, named, told, words), session_id=session)
        for number, (session, named, told, words) in enumerate(rows)
    ]
    assert sorted(roll_up(Level.DAY, children).topic.split(", ")) == [
        "font of the labels missing",
        "look for every place that sends mails",
        "move the accounts to keys",
    ]


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
        ("assistant", "Fixed. `roundPrice` now rounds on whole cents, and all tests of `roundPrice` pass."),
        ("user", "no"),
        ("user", "use big.js"),
        ("tool", "Edit: /src/price.ts\nok"),
        (
            "tool",
            "Bash: git commit -F msg\n[main 1f2e3d4] Use big.js for baskets\n",
        ),
        ("assistant", "Pushed."),
    )
    assert "big.js for baskets" in named


def test_a_merge_is_told_apart_by_what_it_touched() -> None:
    named = title(
        ("user", "merge main into my branch"),
        ("tool", "Edit: /src/tax/rounding.py\nok"),
        ("assistant", "Merged. Your fix moved to `rounding.py`."),
    )
    assert named == "Merge main into my branch: rounding.py"


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


def test_a_question_on_the_way_does_not_name_a_later_part_of_a_session() -> None:
    context = conversation(("user", "Implement the print queue of the label printer, with priorities."))
    events = conversation(
        ("tool", "Edit: /src/queue.ts\nok"),
        ("assistant", "The print queue now sorts by priority."),
        ("user", "great. what happens if somebody cancels a job at the printer?"),
        ("assistant", "The job stays in the queue and is printed again from its first page."),
        ("user", "ok. now add the print button to the shop, in the colours of the style guide"),
        ("tool", "Edit: /web/PrintButton.tsx\nok"),
        ("assistant", "The shop has a print button in the colours of the style guide."),
        first=10,
    )
    named = summarize_segment(events, context).title
    assert "button" in named.lower()
    assert "cancels" not in named
    begun = summarize_segment(conversation(("user", "what happens if somebody cancels a job at the printer?")), [])
    assert begun.title == "Somebody cancels a job at the printer"


def test_the_request_with_which_a_session_begins_is_told_though_its_words_do_not_come_back() -> None:
    asked = "Please have a look at the attached rules and tell me if there are any contradictions before we start:\n\n"
    rules = (
        "1. Tickets are numbered consecutively without gaps per season.\n2. A draft ticket receives its number when it "
        "is created.\n3. Drafts can be deleted by any clerk.\n4. Refunds use the same range as tickets.\n5. Numbers "
        "must be assigned in order of the ticket date."
    )
    told = bullets(
        ("user", f"{asked}{rules}"),
        (
            "assistant",
            "**1 vs. 3** — If drafts get a number and can be deleted, gaps are unavoidable. Assign it when the "
            "ticket is sold instead.\n\n**1 vs. 5** — Consecutive numbers in order of the ticket date can't be "
            "guaranteed when someone sells a ticket dated yesterday after one dated today.",
        ),
        (
            "user",
            "agreed, number on selling. For 5 we forbid back-dating beyond the last sold ticket. 4 stays as it is.",
        ),
        (
            "assistant",
            "I'd write them down as invariants so that they can be tested: no number before selling, ticket date after "
            "that of the last sold ticket, one sequence per season for tickets and refunds.",
        ),
        ("user", "create the TicketNumbers with these rules, use a sequence per season? or a table with row lock?"),
        ("assistant", "A table with a row lock. A sequence doesn't roll back, so a failed sale would leave a gap."),
        ("tool", "Write: /src/TicketNumbers.cs\nok"),
        (
            "assistant",
            "`TicketNumbers` is in place with 9 tests, one of which rolls back and checks that no number is lost.",
        ),
    )
    assert told[0].startswith("Asked: have a look at the attached rules and tell me if there are any contradictions")


def test_a_theme_is_rather_long_than_two_words() -> None:
    said = ["Asked: phone bill for the sales team has doubled, why?", "Found the cause of it"]
    children = [
        segment_node(1, "Phone bill for the sales team has doubled", said, ("phone", "bill")),
        segment_node(2, "Dark colours for the shop", ["Asked: dark colours for the shop"], ("colours", "shop")),
    ]
    assert "phone bill for the sales team has doubled" in roll_up(Level.DAY, children).topic
