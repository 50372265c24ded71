"""Times inside a question, asked on a Wednesday afternoon in Berlin."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given

from mcp_memory import lexicon
from mcp_memory.times import find as finding
from mcp_memory.times import resolve as phrases
from mcp_memory.times.find import find
from mcp_memory.times.resolve import resolve
from tests.times.test_properties import MOMENTS, TEXTS
from tests.times.test_resolve import BERLIN, NOW, bounds


@pytest.mark.parametrize(
    ("question", "phrase", "rest"),
    [
        ("what did we decide last week about auth?", "last week", "what did we decide about auth?"),
        ("JWT refresh from last week", "last week", "JWT refresh"),
        ("last week's discussions of the mutex", "last week", "discussions of the mutex"),
        ("last week", "last week", ""),
        ("Yesterday's deploy failure", "Yesterday", "deploy failure"),
        ("what broke today?", "today", "what broke?"),
        ("what did we discuss around noon yesterday?", "around noon yesterday", "what did we discuss?"),
        ("what was done on 02/03 about CSV", "02/03", "what was done about CSV"),
        ("what did we ship on 3.2.2026?", "3.2.2026", "what did we ship?"),
        ("what did we do the day after Christmas", "day after Christmas", "what did we do"),
        ("what did we do on the first Monday of January", "first Monday of January", "what did we do"),
        ("what did we do over Easter", "over Easter", "what did we do"),
        ("what did we do in October and November?", "October and November", "what did we do?"),
        ("what broke on Monday or Tuesday", "Monday or Tuesday", "what broke"),
        ("what broke last week and this week", "last week and this week", "what broke"),
        ("why did we drop redis in October last year", "October last year", "why did we drop redis"),
        ("what did we plan last Christmas", "last Christmas", "what did we plan"),
        ("what broke in the last three days of January", "the last three days of January", "what broke"),
        ("the parser rewrite last year", "last year", "the parser rewrite"),
        ("what did we decide in January the second time", "January", "what did we decide the second time"),
        ("what was decided the other day about caching", "other day", "what was decided about caching"),
        ("what did we do last summer", "last summer", "what did we do"),
        ("was haben wir am 3. Februar gemacht?", "3. Februar", "was haben wir gemacht?"),
        ("was haben wir im Januar entschieden", "Januar", "was haben wir entschieden"),
        ("was ging gestern schief", "gestern", "was ging schief"),
        ("Which index did we add two weeks ago?", "two weeks ago", "Which index did we add?"),
        ("errors in the last 3 days", "the last 3 days", "errors"),
        ("what happened in the last month with deploys", "the last month", "what happened with deploys"),
        ("why did we drop redis in January", "January", "why did we drop redis"),
        ("what changed in march", "march", "what changed"),
        ("rate limits in May 2025", "May 2025", "rate limits"),
        ("what did we do on May 3?", "May 3", "what did we do?"),
        ("what did we do in 2024?", "2024", "what did we do?"),
        ("In the week starting January 19, what changed?", "week starting January 19", "what changed?"),
        ("CLI work on the evening of January 5, 2026", "evening of January 5, 2026", "CLI work"),
        ("fixes on Sunday the 25th of January?", "Sunday the 25th of January", "fixes?"),
        ("what did we do on the 3rd?", "3rd", "what did we do?"),
        ("what did we do on the 3rd about CSV", "3rd", "what did we do about CSV"),
        ("what is new since Monday", "since Monday", "what is new"),
        ("CSV export between Jan 3 and Jan 10", "between Jan 3 and Jan 10", "CSV export"),
        ("CSV export between Jan 3 and 10", "between Jan 3 and 10", "CSV export"),
        ("commits Jan 15–18 in the api", "Jan 15–18", "commits in the api"),
        ("deploys 2026-01-15..2026-01-18", "2026-01-15..2026-01-18", "deploys"),
        ("deploy on 2026-01-15 (Thursday)", "2026-01-15", "deploy (Thursday)"),
        ("the flaky test (last Tuesday)", "last Tuesday", "the flaky test ()"),
        ("who fixed it on Tuesday? and how", "Tuesday", "who fixed it? and how"),
        ("what broke around 2026-02-12T08:00:00Z?", "around 2026-02-12T08:00:00Z", "what broke?"),
        ("what broke on Wednesday evening?", "Wednesday evening", "what broke?"),
        ("what did we do Monday?", "Monday", "what did we do?"),
        ("what was broken Tuesday morning, again?", "Tuesday morning", "what was broken, again?"),
        ("it broke in January. 3 workers died", "January", "it broke. 3 workers died"),
        ("it broke on Jan. 3", "Jan. 3", "it broke"),
        ("what was decided Dec 30-Jan 2?", "Dec 30-Jan 2", "what was decided?"),
        ("what shipped over the weekend", "weekend", "what shipped"),
        ("what shipped at the end of January", "end of January", "what shipped"),
        ("notes from before Christmas", "before Christmas", "notes from"),
        ("issue last week, as mentioned on November 6, 2023?", "November 6, 2023", "issue last week?"),
        ("was it done by 7 November, 2022?", "by 7 November, 2022", "was it done?"),
        ("what was finished by the end of last week?", "by the end of last week", "what was finished?"),
        ("what did we do sometime last week about CSV", "sometime last week", "what did we do about CSV"),
        ("what did we fix in the course of last week?", "in the course of last week", "what did we fix?"),
        ("what did we do from January on?", "from January on", "what did we do?"),
        ("what did we fix for the past three days", "past three days", "what did we fix"),
        ("which bugs came up within the last week?", "the last week", "which bugs came up?"),
        ("what did we decide on or before January 5?", "on or before January 5", "what did we decide?"),
        ("what broke on Monday, Tuesday and Wednesday?", "Monday, Tuesday and Wednesday", "what broke?"),
        ("what did we do Monday to Wednesday?", "Monday to Wednesday", "what did we do?"),
        ("what did we do the 3rd to the 5th?", "3rd to the 5th", "what did we do?"),
        ("who was at the lunch last Tuesday", "last Tuesday", "who was at the lunch"),
        ("summarize January for me", "January", "summarize for me"),
        ("what moved last month, and now again", "last month", "what moved, and now again"),
        ("what did we do yesterday at 3?", "yesterday at 3", "what did we do?"),
        ("what did we do yesterday before noon?", "yesterday before noon", "what did we do?"),
        ("what did we change a week ago Friday in auth?", "a week ago Friday", "what did we change in auth?"),
        ("what shipped the Monday after Christmas", "Monday after Christmas", "what shipped"),
        ("what did we do two or three weeks ago?", "two or three weeks ago", "what did we do?"),
        ("what did we ask in Monday's session", "Monday", "what did we ask session"),
        ("what broke on the 5th of last month", "5th of last month", "what broke"),
        ("which tests failed last 24h?", "last 24h", "which tests failed?"),
        ("what did we merge on 2/3/26?", "2/3/26", "what did we merge?"),
    ],
)
def test_a_question_is_split_into_its_time_and_the_rest(question: str, phrase: str, rest: str) -> None:
    found = find(question, NOW, BERLIN)
    assert found is not None
    assert (found[0].phrase, found[1]) == (phrase, rest)


@pytest.mark.parametrize(
    "question",
    [
        "on 3/4 of the screen", "upgrade on 3.2 to 3.3", "in fall through cases", "in Spring Boot",
        "I am 3 tests behind", "summer theme", "at 3pm sharp", "noon", "good friday feeling",
        "the tag from main", "version 3.2.1999999",
        "how may we retry", "it may 3 times out", "march through the list", "the march 5 script",
        "which second call failed", "is it fixed now", "upgrade to 2.13.2", "pin hypothesis 1.2", "listen on port 2024",
        "port 8080", "today's date function", "call today() in app/clock.py", 'the string "yesterday"',
        "bare 2024 in a name", "a buffer of 2048 bytes", "timeout in 2000 ms", "after 2024 requests it fails",
        "on the 3rd attempt it passed", "on the 2nd try", "last 5 commits", "the last name column",
        "last time we talked", "previous conversation", "next week's plan", "Turbocharged Tuesdays",
        "How many days ago was it", "years ago", "more than a week ago", "over a month ago", "in dec format",
        "until may", "logs/2024-01-15.txt", "file 2024-01-15-notes.md", "the Sunday job", "runs Monday to Friday",
        "finish it by Friday", "dinner this weekend", "this Friday", "the first week", "weekend mode",
        "christmas banner", "good morning", "Q3 filter", "week 3", "sat in the queue", "the sun icon", "2024-01 branch",
        "second week", "in 5 minutes", "before we started", "weeks start on Monday",
        "Oct 12 10:33:01 host sshd", "2026-02-12 08:00:01 ERROR", "we meet this Friday evening",
        "since the refactor", "between 3 and 10", "from 1 to 5", "the utf-8-sig-3 case", "version 3-jan-beta",
        "HTTP 404", "", "   ", "did we plan to ship by Friday?", "was it Black Friday?",
        "the last month column", "today button", "this week view of the calendar", "2 hours ago label",
        "in the summer sale feature", "over the weekend job", "edition of 2024", "due on Friday",
        "on Friday we will ship", "Q1 and Q3 quartiles", "may and march are words",
        "why may the retry fail", "you may want to check", "the second attempt", "the 404 error", "version 3.2",
        "in version 3.2", "1/2 cup of it", "2/3 of tests failed", "on 1/2 of the nodes", "step 3/4", "runs 24/7",
        "in seconds", "after 30 seconds", "for 3 days", "cache for 7 days", "expires in 3 days", "he sat down on it",
        "the last function", "what did we do about this week's cache key?", "this month's budget field", "MAR file",
        "Jan said to drop it", "what did Jan say about auth", "what did April commit", "why did May change the schema",
        "no deploy Fridays", "the Monday morning cron", "weekly on Sunday", "runs at midnight",
        "why did it fail at midnight?",
        "the cron at 3:00, why did it fail?", "at 10:30", "foo.py:10:30", "two weeks from now", "tomorrow",
        "the `last week` option", "last_week", "night mode", "nightly build", "in h1 tags", "the h2 element",
        "fall back to sqlite", "in fall back cases", "in spring config", "how do we configure beans in Spring?",
        "the second half of the file", "early return", "late binding", "mid function", "end of file", "HTTP 2020",
        "issue 2024", "ES2020", "ubuntu 22.04", "on ubuntu 24.04", "CVE-2024-1234", "RFC 3339", "2024-01-15 format",
        "v2024.01.15", "release 2024.1.15", "from 1.2 to 1.4", "between 1.2 and 1.4", "3-5 retries", "5-7 days",
        "between 3 and 5 days", "since version 2", "since 3.2", "before the 3rd call", "after the 2nd retry",
        "on the 5th line", "around the 3rd attempt", "the last two commits", "one day we should", "as of now",
        "up to date",
        "how long ago", "on second thought", "half an hour", "2-week sprint", "7 day window", "the last 7 days chart",
        "the time phrase since Monday", "parse last week", "time phrases such as yesterday", "in the year of the dog",
        "I snack on them all day", "tense from looking at screens all day", "the increase in weeks 5-8 of the plan",
        "my work hours are from 9:00 AM to 5:30 PM", "8 am till 4 pm - 12 pm till 8 pm", "a league in the spring",
        "fired at Mon Feb 9 09:39:51 CET 2026", "what should we plan in the fall?", "lunch recipes", "review may fail",
        "at 3 workers it died", "what did we do at 2pm?", "what did we do in the spring?", "a mayday call",
        "walk through Monday.com",
        "did the job run every Monday?", "move the meeting to Monday", "Año 2024 informe", "先週の変更",
    ],
)  # fmt: skip
def test_words_that_only_look_like_times_are_left_alone(question: str) -> None:
    assert find(question, NOW, BERLIN) is None


def test_a_pasted_file_costs_no_more_than_its_beginning() -> None:
    assert find("on the last in " * 5_000 + "yesterday", NOW, BERLIN) is None
    assert find("yesterday " + "on the last in " * 5_000, NOW, BERLIN) is not None


@pytest.fixture
def french(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A language more, of which there is nothing but its file."""
    known = (lexicon.editions, lexicon.table, phrases.languages, phrases.normal, finding._vocabulary)
    for path in Path(lexicon.__file__).parent.glob("times.*.toml"):
        shutil.copy(path, tmp_path)
    rewrite = '[rewrite]\nrules = [["\\\\bil y a (.+)$", "\\\\1 ago"]]\n'
    (tmp_path / "times.fr.toml").write_text(f'[words]\nhier = "yesterday"\ndeux = "two"\njours = "days"\n{rewrite}')
    monkeypatch.setattr(lexicon, "_HERE", tmp_path)
    for cached in known:
        cached.cache_clear()
    yield
    monkeypatch.undo()
    for cached in known:
        cached.cache_clear()


@pytest.mark.usefixtures("french")
def test_another_language_is_a_file() -> None:
    assert bounds("hier") == bounds("yesterday")
    assert bounds("il y a deux jours") == bounds("two days ago")
    found = find("qu'est-ce qui a cassé hier?", NOW, BERLIN)
    assert found is not None
    assert (found[0].phrase, found[1]) == ("hier", "qu'est-ce qui a cassé?")


@given(text=TEXTS, now=MOMENTS)
def test_finding_never_fails_and_only_takes_words_away(text: str, now: datetime) -> None:
    found = find(text, now, BERLIN)
    if found:
        time_range, rest = found
        assert resolve(time_range.phrase, now, BERLIN).phrase == time_range.phrase
        assert len(rest) < len(text)
        assert time_range.start_ms <= now.timestamp() * 1000
