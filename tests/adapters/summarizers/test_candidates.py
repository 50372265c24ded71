"""Every sentence worth keeping, with its exact place."""

from __future__ import annotations

from dataclasses import replace

from mcp_memory.adapters.summarizers.candidates import candidates
from mcp_memory.adapters.summarizers.expressions import Expression
from tests.adapters.summarizers.conversations import PORT, conversation


def test_the_same_events_have_the_same_candidates_and_others_their_own() -> None:
    first = candidates(PORT)
    assert candidates(list(PORT)) == first
    said = [pick.text for pick in first]
    # As many events of the same keys, one of which says something else.
    changed = [*PORT[:-1], replace(PORT[-1], text="I moved the port to `.env.ci`.")]
    told = [pick.text for pick in candidates(changed)]
    assert "I moved the port to `.env.ci`" in told
    assert "I moved the port to `.env.ci`" not in said
    assert [pick.text for pick in candidates(PORT)] == said


def test_candidates_of_people_who_talk_by_name_are_not_those_of_an_assistant() -> None:
    talk = conversation(
        ("user", "Anna: I moved the shelf to the cellar."), ("assistant", "Ben: I painted the door green last week.")
    )
    assert [pick.text for pick in candidates(talk, named=True)] != [pick.text for pick in candidates(talk, named=False)]


def test_an_expression_fits_as_a_compiled_one_does() -> None:
    expression = Expression(r"\bport (\d+)", r"\bno port")
    match = expression.search("it uses port 5433")
    assert match is not None
    assert match[1] == "5433"
    assert expression.fullmatch("no port")
    assert not expression.match("uses no port")
    assert [found[0] for found in expression.finditer("port 1, no port, port 2")] == ["port 1", "no port", "port 2"]
    assert Expression(",").split("a,b") == ["a", "b"]
