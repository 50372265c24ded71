"""Every exception this package raises on purpose.

    MemoryFault
    ├── UsageError              the caller asked for something impossible (exit 2)
    │   ├── SettingsError       config.toml or the environment holds a bad value
    │   ├── UnknownTimePhrase   a time phrase that cannot be resolved
    │   ├── TooLarge            more at once than a request may hold
    │   └── BadId               an id that is not of any known form
    ├── NotFound                a well-formed id, project or file that does not exist
    │   ├── NoProject           memory knows no project here, and none was named
    │   └── OutOfReach          it is of another project, and `[privacy] isolate` is on
    ├── NotAllowed              who asks may not do or see this
    ├── TooMany                 several requests of the same kind are under way
    ├── StoreError              the database cannot be used
    │   ├── StoreBusy           another process holds it
    │   ├── StoreCorrupt        it is damaged
    │   ├── StoreFull           the disk is full or read-only
    │   ├── StoreNewer          a later version wrote it
    │   ├── StoreRejected       it cannot hold a value, however often it is tried
    │   ├── StoreReplaced       another file has its name, or none
    │   └── StoreUnreachable    the server that has it cannot be reached, or refuses us
    ├── LeaseLost               another process took over the pipeline
    ├── TeamFault               the team's server did not do what it was asked
    │   ├── TeamRefused         it does not accept the token (any more)
    │   ├── TeamDenied          this user may not do that there
    │   ├── TeamRejected        it does not take this request, now or later
    │   └── TeamUnreachable     it cannot be reached, or asks to wait
    │       └── TeamFailed      it failed at this request, for a reason that it did not foresee
    └── SummarizerError         a summary could not be made
        ├── ModelUnusable       the model cannot be asked with these settings
        │   ├── AuthRefused     the key is missing, wrong or not allowed to do this
        │   └── ModelMissing    the provider does not know the model
        ├── Passing             it may work later: worth a retry
        │   ├── RateLimited     the provider asks to wait
        │   ├── ModelTimeout    no answer in time
        │   └── TransportFailed the connection failed or the server erred
        ├── RequestRefused      the provider will not take this request
        ├── InvalidOutput       the answer is not what was asked for
        │   └── UntrueOutput    it tells as true what was refuted
        ├── ContextTooLong      the text is longer than the model takes
        ├── CapReached          the day's tokens are spent
        └── ModelPaused         the model failed repeatedly and is left alone for a while

Each message says what happened and what to do next.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

#: How a newer version comes in. The package is on no index, so it is installed from a clone.
UPDATE = "git pull in the clone of mcp-memory, then uv tool install --reinstall . or pip install ."


def how_to_add(extra: str) -> str:
    """How a package comes in that only some settings need."""
    return f"in the clone of mcp-memory: uv tool install '.[{extra}]' (or: pip install '.[{extra}]')"


class Problem(NamedTuple):
    """What is wrong, why that is so or matters, and the command or step that fixes it."""

    what: str
    why: str
    fix: str


class Damage(Problem):
    """The database file itself is not whole."""


class Step(NamedTuple):
    """What to do next: how an agent calls it, and how it is typed on the command line."""

    call: str
    command: str


#: A message may repeat what it was given; how much of it is shown of one that is longer.
_LONGEST, _HEAD, _TAIL = 2_000, 300, 1_200


class MemoryFault(Exception):
    """Base of all errors that are shown to the user without a traceback.

    As text it speaks to an agent. `typed` is the same for the command line, where the next step has another name.
    """

    def __init__(self, message: str, step: Step | None = None) -> None:
        if len(message) > _LONGEST:  # its middle would fill an agent's context; its end says what to do
            message = f"{message[:_HEAD]}…{message[-_TAIL:]}"
        super().__init__(f"{message} {step.call}".strip() if step else message)
        self.names_step = step is not None
        self.typed = f"{message} {step.command}".strip() if step else message


class UsageError(MemoryFault):
    """The request itself is wrong."""


class SettingsError(UsageError):
    """A setting is unknown or out of range."""


class UnknownTimePhrase(UsageError):
    """A time phrase could not be resolved."""


class BadId(UsageError):
    """An id has no known form."""


class TooLarge(UsageError):
    """A request holds more than it may; half of it may do."""


class NotFound(MemoryFault):
    """Nothing is stored under this id or name."""


class NoProject(NotFound):
    """Memory knows no project here, so that there is nothing to answer from."""


class OutOfReach(NotFound):
    """It belongs to another project than the one that may be read."""


class NotAllowed(MemoryFault):
    """Who asks may not do or see this."""


class TooMany(MemoryFault):
    """Several requests of the same kind are under way."""


class StoreError(MemoryFault):
    """The database cannot be used."""


class StoreBusy(StoreError):
    """Another process holds the database."""


class StoreCorrupt(StoreError):
    """The database file is damaged."""


class StoreFull(StoreError):
    """The disk is full or the file is read-only."""


class StoreNewer(StoreError):
    """The database was written by a later version."""


class StoreRejected(StoreError):
    """The database cannot hold a value: it is too long, or of a form that it does not take."""


class StoreReplaced(StoreError):
    """The database was removed or replaced while it was open; it must be opened again."""


class StoreUnreachable(StoreError):
    """The server that has the memory cannot be reached, or refuses us."""


class LeaseLost(MemoryFault):
    """Another process took over the pipeline; whatever was in progress must not be written."""


class TeamFault(MemoryFault):
    """The team's server did not do what it was asked."""


class TeamRefused(TeamFault):
    """The team's server does not accept the token, or not any more."""


class TeamDenied(TeamFault):
    """The team's server does not let this user do that."""


class TeamRejected(TeamFault):
    """The team's server finds fault with the request itself: sent again, it would do so again."""


class TeamUnreachable(TeamFault):
    """There is no way to the team's server now; `retry_after` are the seconds that it asks to wait, if it does."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TeamFailed(TeamUnreachable):
    """The team's server failed at a request: because of what it holds, or because something is wrong there."""


class SummarizerError(MemoryFault):
    """A summary could not be made."""


class ModelUnusable(SummarizerError):
    """The model cannot be asked until the settings change."""


class AuthRefused(ModelUnusable):
    """The provider refuses the key, or there is none; `for_model`: it may refuse it for this one model alone."""

    def __init__(self, message: str, for_model: bool = False) -> None:
        super().__init__(message)
        self.for_model = for_model


class ModelMissing(ModelUnusable):
    """The provider does not know the model."""


class Passing(SummarizerError):
    """A failure that may be gone the next time; `retry_after` are the seconds the provider asks to wait, if it does."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RateLimited(Passing):
    """The provider asks to wait."""


class ModelTimeout(Passing):
    """The model did not answer in time."""


class TransportFailed(Passing):
    """The connection failed, or, if it `answered`, the provider's server did: then nothing was paid for."""

    def __init__(self, message: str, retry_after: float | None = None, answered: bool = False) -> None:
        super().__init__(message, retry_after)
        self.answered = answered


class RequestRefused(SummarizerError):
    """The provider will not take this request."""


class InvalidOutput(SummarizerError):
    """The model's answer does not have the form that was asked for."""


class UntrueOutput(InvalidOutput):
    """The model's answer tells as true what was refuted. The model works; it failed at this one question."""


class ContextTooLong(SummarizerError):
    """The request is longer than the model takes."""


class CapReached(SummarizerError):
    """The next call could bring the day's tokens over the cap."""


class ModelPaused(SummarizerError):
    """The model failed repeatedly; it is asked again later."""


@contextmanager
def alone() -> Iterator[None]:
    """Raise a fault, or a single error, as it was raised: a task group wraps what its body or its tasks raise."""
    try:
        yield
    except BaseExceptionGroup as group:
        faults, others = group.split(MemoryFault)
        if faults is not None and others is not None:
            raise
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            if faults is None and len(first.exceptions) > 1:
                raise
            first = first.exceptions[0]
        raise first from first.__cause__


# After an error, a sentence.
SEE_ALL = Step("Call toc_root to see what there is.", "`mcp-memory toc` shows what there is.")
JOIN_TEAM = Step("The user can join the team with `mcp-memory team join URL`.", "`mcp-memory team join URL` joins one.")
SEE_PROJECTS = Step("Call toc_root with project '*' to see all.", "`mcp-memory projects` lists them.")
SEE_GRIPS = Step(
    "Grip ids stand behind the bullets of get_node and the hits of teleport.",
    "Grip ids stand behind the bullets of `mcp-memory node` and the hits of `mcp-memory search`.",
)
SEE_WHOLE_GRIP = Step("teleport shows the whole id of one.", "`mcp-memory search` shows the whole id of one.")
SEE_SESSIONS = Step("teleport(query) names sessions.", "`mcp-memory search` and `mcp-memory grip` name sessions.")
FIND_TERMS = Step("teleport(query) finds terms.", "`mcp-memory search QUERY` finds terms.")
FIND_OTHERWISE = Step("Try other words, or browse_time(when).", "Try other words, or `mcp-memory timeline WHEN`.")
KEEP_NOTE = Step("remember(text) keeps a note.", "`mcp-memory remember TEXT` keeps a note, `import` loads old history.")
TAKE_SNAPSHOT = Step("build_context gives one in its last line.", "`mcp-memory snapshot` takes one.")

# In the last line of an answer, a list.
TO_WORDS = Step("expand_grip(grip_id) for the exact words", "`grip ID` for the exact words")
DOWN = Step("get_node(node_id) to go down", "`node ID` to go down")
DOWN_TOPIC = Step("get_node(node_id, topic) to go down", "`node ID --topic T` to go down")
MORE_OF_ONE = Step("get_node(node_id) for more of one", "`node ID` for more of one")
TERM = Step("teleport(query) for a term", "`search QUERY` for a term")
TERM_OF_IT = Step("teleport(query) for a term of it", "`search QUERY` for a term of it")
TIME = Step("browse_time(when) for a time", "`timeline WHEN` for a time")
ALL_TIMES = Step("toc_root() shows which times are", "`toc` shows which times are")
FINDS_TERMS = Step("teleport(query) finds terms", "`search QUERY` finds terms")
ALL_TOPICS = Step("toc_root() for all", "`toc` for all")
WITHOUT_TOPIC = Step("the same without topic for all of it", "the same without `--topic` for all of it")
OTHER_WORDS = Step("teleport(query) for other words", "`search QUERY` for other words")
ALL_PROJECTS = Step('toc_root(project="*") for all projects', "`toc --project '*'` for all projects")
NOTES = Step("remember(text) keeps a note", "`remember TEXT` keeps a note")
ASK_OTHERWISE = Step(
    "teleport with other words, browse_time(when), or toc_root() to look around",
    "`search` with other words, `timeline WHEN`, or `toc` to look around",
)

# Within an answer.
FOUND_NOW = Step(
    "teleport(query) finds them now.", "`mcp-memory process` does so now, and `mcp-memory search QUERY` finds them."
)
ANY_OTHER_DAY = Step("browse_time(when) shows any other.", "`timeline WHEN` shows any other.")
PASS_PROJECT = Step("pass project.", "name one with --project.")
MORE = Step("… {} more: raise budget_tokens", "… {} more: raise --budget")
MORE_OF_TIME = Step(
    "… {} more in this time: use cursor or a narrower time",
    "… {} more in this time: raise --budget or name a narrower time",
)


def more_in(node_id: str) -> Step:
    """Something was left out, and where it is shown."""
    return Step(
        f'… {{}} more: get_node("{node_id}"), or more budget_tokens',
        f"… {{}} more: `node {node_id}`, or a larger --budget",
    )


def too_small(least: int) -> Step:
    return Step(f"Too small: budget_tokens={least} is the least.", f"Too small: --budget {least} is the least.")


def listed(*steps: Step) -> Step:
    """Several steps in one line."""
    return Step(", ".join(step.call for step in steps), ", ".join(step.command for step in steps))


def did_you_mean(given: str, *known: Iterable[str]) -> str:
    """A sentence that names what was likely meant, with a space before it; nothing if nothing is spelled alike."""
    from difflib import get_close_matches

    words = {str(word).lower(): str(word) for words in known for word in words}
    close = get_close_matches(given.lower(), words, n=2)
    return f" Did you mean {' or '.join(repr(words[word]) for word in close)}?" if close else ""
