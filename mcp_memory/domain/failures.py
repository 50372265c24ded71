"""Work of the pipeline that fails for one session or period: it is set aside, so that all other work goes on.

What is set aside leaves its queue. It comes back when its inputs change, since the queue then names it again, and when
a later version of the program runs, which may be able to do it.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mcp_memory.domain.nodes import BriefSource, Stale
from mcp_memory.domain.records import Account
from mcp_memory.domain.segments import Cutting, SegmentJob
from mcp_memory.errors import UPDATE, MemoryFault, StoreRejected, SummarizerError


class Stage(StrEnum):
    CUT = "segmenting"
    SUMMARY = "summary"
    RECORD = "compaction"
    ROLLUP = "rollup"
    BRIEF = "brief"


@dataclass(frozen=True, slots=True)
class Failure:
    """What failed at a stage. `mark` tells the state of its inputs: if that has changed meanwhile, it is not set aside.

    `name` is its name within the stage, of which the store makes the queue's row again.
    """

    stage: Stage
    name: str
    mark: str
    reason: str
    session: int | None = None
    project: int | None = None
    #: Who wanted a session's record.
    asked: str = ""


@dataclass(frozen=True, slots=True)
class FailedWork:
    """What is set aside: a stage's work on a session, a period or a project, and why."""

    stage: Stage
    #: `session NAME`, the id of a period, or `project SLUG`.
    what: str
    project: str
    reason: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Pause:
    """The pipeline meets the same trouble again and again: the error, how often, and since when."""

    error: str
    times: int
    since_ms: int


_WHAT = {
    Stage.CUT: "could not be cut into segments",
    Stage.SUMMARY: "could not be summarized",
    Stage.RECORD: "could not be compacted",
    Stage.ROLLUP: "could not be summarized",
    Stage.BRIEF: "could not be told to new sessions",
}
#: How many names a sentence holds.
_MAX_NAMES = 5
#: What to do about work that failed.
RETRY = f"{UPDATE}; then `mcp-memory process` tries again. If this is the latest version, report the error named above."


def grouped_failures(found: Sequence[FailedWork]) -> list[tuple[str, str]]:
    """Return what failed and why, once for each stage and reason."""
    groups: dict[tuple[Stage, str], list[FailedWork]] = {}
    for work in found:
        groups.setdefault((work.stage, work.reason), []).append(work)
    return [(_named(stage, works), f"{reason.rstrip('.')}.") for (stage, reason), works in groups.items()]


def _named(stage: Stage, works: Sequence[FailedWork]) -> str:
    names = list(dict.fromkeys(f"{work.what} of {work.project}" if work.project else work.what for work in works))
    shown = ", ".join(names[:_MAX_NAMES])
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{shown}{more} {_WHAT[stage]}"


def is_failure_of_one(error: Exception) -> bool:
    """Return whether an error concerns the work in hand alone; others, such as a full disk, concern all of it."""
    return not isinstance(error, MemoryFault) or isinstance(error, SummarizerError | StoreRejected)


def failure_reason(error: Exception) -> str:
    """Return the kind of an error and where it was raised, without its message, which may quote what was said."""
    cause = error.__cause__ if isinstance(error, SummarizerError) and isinstance(error.__cause__, Exception) else error
    if isinstance(cause, MemoryFault):
        return str(cause)
    frames = traceback.extract_tb(cause.__traceback__)
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(cause).__name__}{where}"


def cut_failure(cutting: Cutting, error: Exception) -> Failure:
    name, mark = str(cutting.session), str(cutting.seq)
    return Failure(Stage.CUT, name, mark, failure_reason(error), session=cutting.session)


def segment_failure(job: SegmentJob, error: Exception) -> Failure:
    name, mark = job.segment.key.hex(), job.segment.input_hash
    return Failure(Stage.SUMMARY, name, mark, failure_reason(error), session=job.session)


def record_failure(account: Account, error: Exception) -> Failure:
    name, mark = str(account.session), str(account.seq)
    return Failure(Stage.RECORD, name, mark, failure_reason(error), session=account.session, asked=account.asked)


def period_failure(stale: Stale, error: Exception) -> Failure:
    name, mark = f"{stale.project} {int(stale.ref.level)} {stale.ref.key}", versions_mark(stale.versions)
    return Failure(Stage.ROLLUP, name, mark, failure_reason(error), project=stale.project)


def brief_failure(source: BriefSource, error: Exception) -> Failure:
    return Failure(Stage.BRIEF, str(source.project), "", failure_reason(error), project=source.project)


def versions_mark(versions: tuple[int, ...]) -> str:
    return " ".join(map(str, sorted(versions)))
