"""Every sentence worth keeping, with its exact place."""

from __future__ import annotations

from dataclasses import replace

from mcp_memory.capture.redaction import Clean
from mcp_memory.lexicon import Expression
from mcp_memory.summaries.extractive import candidates
from tests.summaries.conversations import PORT, conversation


def test_the_same_events_have_the_same_candidates_and_others_their_own() -> None:
    first = candidates(PORT)
    assert candidates(list(PORT)) == first
    said = [pick.shown for pick in first]
    # As many events of the same keys, one of which says something else.
    changed = [*PORT[:-1], replace(PORT[-1], text=Clean("I moved the port to `.env.ci`."))]
    told = [pick.shown for pick in candidates(changed)]
    assert "I moved the port to `.env.ci`" in told
    assert "I moved the port to `.env.ci`" not in said
    assert [pick.shown for pick in candidates(PORT)] == said


def test_candidates_of_people_who_talk_by_name_are_not_those_of_an_assistant() -> None:
    talk = conversation(
        ("user", "Anna: I moved the shelf to the cellar."), ("assistant", "Ben: I painted the door green last week.")
    )
    assert [pick.shown for pick in candidates(talk, named=True)] != [
        pick.shown for pick in candidates(talk, named=False)
    ]


def told(*turns: tuple[str, str]) -> list[str]:
    return [pick.shown for pick in candidates(conversation(*turns))]


def test_of_tests_that_ran_again_only_the_last_run_is_told() -> None:
    texts = told(
        ("tool", "Bash: pytest -q\n3 failed, 40 passed in 2.10s"),
        ("tool", "Bash: npm test\n7 passed"),
        ("tool", "Bash: pytest -q\n43 passed in 2.20s"),
    )
    assert [text for text in texts if text.startswith("Ran ") and ": " in text] == [
        "Ran `npm test`: 7 passed",
        "Ran `pytest -q`: 43 passed in 2.20s",
    ]


def test_a_quiet_commit_is_told_by_its_message() -> None:
    assert "Committed: Cache the price list" in told(("tool", "Bash: git commit -qam 'Cache the price list'\n"))
    failed = told(("tool", "Bash: git commit -qam 'Cache the price list'\nExit code 1\nerror: hook declined it"))
    assert not any(text.startswith("Committed") for text in failed)


def test_an_expression_fits_as_a_compiled_one_does() -> None:
    expression = Expression(r"{{port}}|\bno port", {"port": r"\bport (\d+)"})
    match = expression.search("it uses port 5433")
    assert match is not None
    assert match[1] == "5433"
    assert expression.fullmatch("no port")
    assert not expression.match("uses no port")
    assert [found[0] for found in expression.finditer("port 1, no port, port 2")] == ["port 1", "no port", "port 2"]
    assert Expression(",").split("a,b") == ["a", "b"]
