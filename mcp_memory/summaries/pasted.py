"""What a user pasted into a message: code, logs and tables of output, which are none of the user's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from mcp_memory.summaries.sentences import windows
from mcp_memory.summaries.toolcalls import error_span

_LOG = re.compile(
    r"\s*(?:at [\w.$<>]+ ?\(|File \"|\d{4}-\d\d-\d\d[T ]\d\d:|\d\d:\d\d:\d\d\b|\[\d|[│├└⨯✓✗❯]|\$ |"
    r"[\w./\\-]+:\d+(?::\d+)?:|Traceback|goroutine \d|(?:ERROR|WARN|WARNING|INFO|DEBUG|FATAL|FAIL|FAILED|PASSED)\b|"
    r"\d+\s+\S+\s+0x[0-9a-f]+|Thread \d+ |[Ff]atal error: |(?:Error|panic|fatal): |"
    r"(?:error|warning)(?:\[\w+\])?:|[\w.]+(?:Error|Exception): |Caused by: |-->|"
    r"(?:---|===) [A-Z]|npm (?:ERR!|WARN|error|warn)|\{\"|"
    # What a compiler draws beside the code it complains of.
    r"\d* *\|(?: |$)|= (?:note|help):|\^\^)"
)
_KEYWORDS = "func|def|fn|function|class|struct|enum|interface|trait|impl|type|const|let|var|val|void|namespace"
_CODE = re.compile(
    r"\s*(?:[{}()\[\]]+[,;]?\s*(?:$|else\b|catch\b|finally\b)|//|/\*|\*/|#include\b|#!|@\w+(?:\(.*\))?$|"
    r"</?[A-Za-z][\w.-]*[ />]|diff --git |@@ -\d|index [0-9a-f]{6,}|package [\w.]+;?$|using [\w.]+;|"
    r"import (?:[\w.{}*, ]+ from |[\"'({]|[\w.]+(?: as \w+)?;?$)|from [\w.]+ import |"
    r"(?:(?:export|async|public|private|protected|static|pub(?:\(\w+\))?|final|default|abstract) )*"
    rf"(?:{_KEYWORDS})\b[ *<(][^.?!]*[\])}}{{;:=>,\"']\s*$|"
    r"(?:if|elif|while|with|match) (?:not )?(?:[\w.]+|\S.*[()=<>\[\]\"'].*):\s*$|for \w+(?:, ?\w+)* in [^:]+:\s*$|"
    r"else\s*[:{]|case \S+:\s*$|(?<=\s)(?:- )?[\w.-]+:(?: \S+)?\s*$|"
    r"(?:return|throw|raise|yield|await|print|assert)\b.*[;)\]}\"'\d]\s*$|"
    r"(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|ALTER) [\w*\"`]|\"[\w@/.-]+\": ?\S?|"
    r"[\w.\[\]\"'*]+(?:, ?\w+)*(?:: ?[\w<>\[\]|]+)? (?::=|\+=|-=|=) \S|"
    r"[\w.]+\([^()]*(?:\([^()]*\)[^()]*)*\)[;,]?\s*$|(?![-*+•] |\d+[.)] ).*[;{]\s*$)"
)
# Output in columns; two blanks after a full stop make none.
_COLUMNS = re.compile(r"\s*\S+(?: \S+)*(?:(?<![.!?:])[ \t]{2,}\S+(?: \S+){0,3}){2,}\s*$")
# What may stand above lines of code, and between them: an indented line, a setting, a comment.
_ABOVE = re.compile(r"(?:[ \t]{2,}|\t)(?![-*+] |\d+[.)] )\S|•|[a-z][\w.-]*:(?: \S+)?$")
_BETWEEN = re.compile(r"[ \t]{2,}\S|\t|[#*•]|[a-z][\w.-]*:(?: \S+)?$|[)}\]]|---+$")
_FEWEST_LINES, _LEAST_CODE = 2, 2


class Pasted(NamedTuple):
    """Characters `start` to `end` of a message that were pasted; `log` tells output from code."""

    start: int
    end: int
    log: bool


def is_log_line(text: str, start: int, end: int) -> bool:
    return _LOG.match(text, start, end) is not None


@lru_cache(maxsize=1 << 9)
def pasted_in(text: str) -> Sequence[Pasted]:
    """The pasted runs of lines in the windows of a message, in order."""
    if text.count("\n") < _FEWEST_LINES - 1:
        return ()
    return tuple(run for low, high in windows(len(text)) for run in _runs(text, low, high))


def own_words(text: str) -> str:
    """A message with what was pasted blanked out; offsets stay."""
    for start, end, _ in pasted_in(text):
        text = f"{text[:start]}{chr(10) * (end - start)}{text[end:]}"
    return text


def pasted_error(text: str, log: Pasted) -> tuple[int, int] | None:
    """Where a pasted log names its error."""
    return error_span(text[: log.end], log.start)


def _runs(text: str, low: int, high: int) -> Iterator[Pasted]:
    """Lines of code or of a log that stand together, with what is indented or blank between them."""
    run = _Run()
    at, fenced = low, False
    for line in text[low:high].split("\n"):
        fence = line.lstrip().startswith(("```", "~~~"))
        fenced = fenced is not fence
        # What stands in fences is known to be code.
        if fence or fenced or not run.takes(line, at):
            if made := run.done():
                yield made
            run = _Run()
        at += len(line) + 1
    if made := run.done():
        yield made


class _Run:
    """Lines that may be one pasted stretch."""

    __slots__ = ("_code", "_end", "_logged", "_open", "_start")

    def __init__(self) -> None:
        self._start = self._end = -1
        self._code = self._logged = 0
        self._open = False

    def takes(self, line: str, at: int) -> bool:
        """Whether the line goes on with the run, or begins one."""
        if not line.strip():
            self._open = False
            # Where nothing was pasted yet, what stands before a blank line has nothing to do with what follows.
            return bool(self._code or self._logged)
        logged = _LOG.match(line) is not None
        coded = not logged and (_CODE.match(line) or _COLUMNS.match(line)) is not None
        begun = self._code or self._logged
        if not (logged or coded or (_BETWEEN if begun else _ABOVE).match(line)):
            return False
        self._logged += logged
        self._code += coded
        self._start = at if self._start < 0 else self._start
        if logged or coded or self._open or (self._logged and line.startswith("  ")):
            self._end = at + len(line)
            self._open = True
        return True

    def done(self) -> Pasted | None:
        if self._logged or self._code >= _LEAST_CODE:
            return Pasted(self._start, self._end, self._logged > 0)
        return None
