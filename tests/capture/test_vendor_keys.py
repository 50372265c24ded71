"""Keys that are looked for in long runs of letters and digits only: each of them is such a run."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

from mcp_memory.capture.redaction import redact
from mcp_memory.capture.redaction.values import RULES, SHORTEST, VERDICTS, is_dummy
from tests.support import fewer_examples

#: What only looks ahead makes no text.
_AHEAD = re.compile(r"\(\?=[^)]*\)")
_RUN = re.compile(rf"[\w.-]{{{SHORTEST},}}", re.ASCII)


#: Those whose form is enough: what the others find is looked at once more.
FORMS = [
    (prefix, body)
    for _, triggers, body, verdict in RULES["keys"]
    if verdict is VERDICTS["key"]
    for prefix in triggers.split("|")
]


@pytest.mark.hypothesis
@pytest.mark.parametrize(("prefix", "body"), FORMS, ids=[prefix for prefix, _ in FORMS])
def test_a_key_is_one_long_run_and_taken_out_wherever_it_stands(prefix: str, body: str) -> None:
    @fewer_examples(1 / 20, suppress_health_check=list(HealthCheck))
    @given(st.from_regex(re.compile(_AHEAD.sub("", body), re.ASCII), fullmatch=True))
    def check(secret: str) -> None:
        assume(re.fullmatch(body, secret, re.ASCII) and not is_dummy(prefix + secret))
        assert _RUN.match(prefix + secret)
        assert prefix + secret not in redact(f"it is ({prefix}{secret}), see above")

    check()


HEX_PREFIXES = [
    trigger
    for table in RULES.values()
    for _, triggers, *_ in table
    for trigger in triggers.split("|")
    if re.fullmatch(r"[0-9a-f-]+", trigger)
]


@pytest.mark.parametrize("prefix", HEX_PREFIXES)
def test_a_uuid_is_no_key_whatever_it_begins_with(prefix: str) -> None:
    """Importers store the ids of events without looking through those that are UUIDs."""
    for first, second in ((prefix, ""), ("5c0d9e71", prefix)):
        digits = f"{first}{'90ab' * 2}"[:8], f"{second}{'c3d4'}"[:4]
        name = f"{digits[0]}-{digits[1]}-4e5f-a6b7-{prefix}{'1a2b3c4d5e6f'[len(prefix) :]}"
        assert redact(name) == name
