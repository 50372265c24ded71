"""What models are asked and how they answer: questions, the forms of answers, and valid values out of what comes back.

The text to summarize is data between fences; nothing in it is an instruction. An answer is JSON out of whatever
surrounds it, checked by pydantic, cleaned and clipped.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from mcp_memory import lexicon
from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.sentences import sentences
from mcp_memory.domain.text import has_unspaced_script, one_line, printable, similar, strip_markup, terms
from mcp_memory.errors import InvalidOutput

MAX_BULLET = 300
MAX_TITLE_WORDS, MIN_TITLE_WORDS = 10, 5
MAX_TITLE = 110
MAX_KEYWORD = 40
MIN_KEYWORDS = 3
#: How many statements a prompt may hold beside the material, which says the same at length.
_MOST_STANDING, _MOST_REFUTED = 15, 15
CONTENT_TYPES = ("conversation", "journal", "document", "general")
#: The kinds that a model may give a bullet, with how it is told what they are.
WRITTEN = {kind: kind.meaning for kind in Kind if kind.meaning}

#: What models leak of their own machinery: chat templates, channels, thinking.
_THINKING = re.compile(r"<(think|thinking|reasoning|scratchpad)>.*?(?:</\1>|\Z)", re.S | re.I)
_CONTROL = re.compile(
    r"<\|(?:channel|message|constrain)\|>(?:analysis|commentary|final|json)?|<\|[^|<>\n]{1,40}\|>|<｜[^｜<>\n]{1,40}｜>|"
    r"\[/?INST\]|<</?SYS>>|</?s>|<(?:bos|eos|pad|unk)>|<(?:start|end)_of_turn>(?:model|user)?|</?tool_call>|"
    r"</?(?:think|thinking|reasoning)>",
    re.I,
)
_TRAILING_COMMA = re.compile(r",\s*([}\]])")


def _strict(schema: dict[str, Any]) -> None:
    """A schema in the subset that every provider's strict mode takes: all that it names is required, and no more."""
    schema.pop("description", None)
    for part in (schema, *schema["properties"].values()):
        for name in ("title", "default", "minLength", "minItems"):
            part.pop(name, None)
    schema |= {"required": list(schema["properties"]), "additionalProperties": False}


class _Form(BaseModel):
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True, json_schema_extra=_strict)


# Models leave out or null what is not said, and write one thing where a list is asked for.
def _kind(given: Any) -> Kind:
    return Kind(given) if isinstance(given, str) and given in WRITTEN else Kind.STATED


def _numbers(given: Any) -> Any:
    listed = given if isinstance(given, list) else [given]
    return [int(found) for value in listed if value is not None for found in re.findall(r"\d{1,6}", str(value))]


def _names(given: Any) -> Any:
    return [part for part in re.split(r"[,;\n]", given) if part.strip()] if isinstance(given, str) else given or []


def _lines(given: Any) -> Any:
    given = given.splitlines() if isinstance(given, str) else given
    return [text for text in given if text] if isinstance(given, list) else given or []


def _items(name: str) -> BeforeValidator:
    """Objects, of which only the field `name` may be given, as a text."""

    def items(given: Any) -> Any:
        if not isinstance(given, list):
            return given or []
        return [{name: item} if isinstance(item, str) else item for item in given if item]

    return BeforeValidator(items)


_Text = Annotated[str, Field(min_length=1)]
_Said = Annotated[str, BeforeValidator(lambda given: given or "")]
_Kind = Annotated[Kind, BeforeValidator(_kind), WithJsonSchema({"type": "string", "enum": [*map(str, WRITTEN)]})]
_Names = Annotated[list[str], BeforeValidator(_names)]
_Lines = Annotated[list[str], BeforeValidator(_lines)]


class CitedBullet(_Form):
    """A statement with the words of the source that show it."""

    text: _Text
    kind: _Kind = Kind.STATED
    quote: str = ""


class SourcedBullet(_Form):
    """A statement with the numbers of the points it was made from."""

    text: _Text
    kind: _Kind = Kind.STATED
    sources: Annotated[list[int], BeforeValidator(_numbers)] = []


class SectionAnswer(_Form):
    """The summary of a stretch of conversation."""

    title: _Text
    bullets: Annotated[list[CitedBullet], _items("text"), Field(min_length=1)]
    keywords: _Names = []


class MergeAnswer(_Form):
    """The summary of numbered points."""

    title: _Text
    bullets: Annotated[list[SourcedBullet], _items("text"), Field(min_length=1)]
    keywords: _Names = []


class TextAnswer(_Form):
    """A summary in prose."""

    summary: _Text


class ActionAnswer(_Form):
    """Something that is left to do."""

    task: _Text
    owner: _Said = ""
    due: _Said = ""


class RecordAnswer(_Form):
    """What a part of a session adds to its record."""

    summary: _Text
    key_points: _Lines = []
    decisions: _Lines = []
    action_items: Annotated[list[ActionAnswer], _items("task")] = []
    unresolved: _Lines = []
    entities: _Names = []


A = TypeVar("A", SectionAnswer, MergeAnswer, TextAnswer, RecordAnswer)


def parse(text: str, form: type[A]) -> A:
    """The answer in this form; raises what is wrong with it, in words that a model can mend it by."""
    cleaned = without_control(text)
    reason = ""
    # The last comes first: before it may stand a draft, or the question with the form that it asks for. An answer may
    # be wrapped in an object, as such or as a text.
    found = list(_decoded(cleaned))
    inside = [inner for outer in found for inner in outer.values()]
    found += [inner for inner in inside if isinstance(inner, dict)]
    found += [value for inner in inside if isinstance(inner, str) for value in _decoded(inner)]
    for value in found:
        try:
            return form.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            reason = reason or f"{'.'.join(map(str, first['loc'])) or 'the object'}: {first['msg']}"
    # Prose was asked for: a model that cannot write JSON may say it plainly, but half an object is no prose.
    if form is TextAnswer and cleaned and "{" not in cleaned:
        return form.model_validate({"summary": cleaned})
    reason = reason or "it holds no JSON object"
    raise InvalidOutput(f"The model's answer is not in the form that was asked for: {reason}.")


def without_control(text: str) -> str:
    """The text without leaked control tokens and thinking."""
    return _CONTROL.sub("", _THINKING.sub("", text)).strip()


def _decoded(text: str) -> Iterator[dict[str, Any]]:
    """The objects in a text, the last first; then, should none be of use, as they are without commas too many."""
    decoder = json.JSONDecoder(strict=False)
    for candidate in (text, _TRAILING_COMMA.sub(r"\1", text)):
        found = list[dict[str, Any]]()
        at = candidate.find("{")
        while at >= 0:
            try:
                value, end = decoder.raw_decode(candidate, at)
            except (ValueError, RecursionError):
                end = at + 1
            else:
                found.append(value)
            at = candidate.find("{", end)
        yield from reversed(found)


def clean_line(text: str, limit: int) -> str:
    """One line of plain words, cut between words."""
    return one_line(strip_markup(without_control(text)), limit)


def clean_prose(text: str) -> str:
    """A model's prose without its machinery; its paragraphs stay."""
    paragraphs = [" ".join(part.split()) for part in without_control(text).split("\n\n")]
    return "\n\n".join(part for part in paragraphs if part)


def title_of(text: str, keywords: Sequence[str], detail: str = "") -> str:
    """A title of five to ten words; one that is too short is told apart by keywords, then by words of a detail."""
    line = clean_line(text, 400).partition(";")[0].strip("\"'“”`# ").rstrip(".")
    if has_unspaced_script(line):
        return one_line(line, MAX_TITLE)
    more = [word for word in keywords if word.lower() not in line.lower()] if line else []
    named: list[str] = []
    while more and len(line.split()) + len(" ".join(named).split()) < MIN_TITLE_WORDS:
        named.append(more.pop(0))
    line = f"{line}: {', '.join(named)}" if named else line
    if line and detail and len(line.split()) < MIN_TITLE_WORDS:
        line = f"{line}{', ' if ': ' in line else ': '}{clean_line(detail, 400).rstrip('.')}"
    kept = line.split()[:MAX_TITLE_WORDS]
    if len(kept) < len(line.split()):  # cut where a clause ends, if there is one in the latter half
        ends = [at for at, word in enumerate(kept, 1) if at >= MIN_TITLE_WORDS and word[-1] in ",:–—"]
        kept = kept[: ends[-1]] if ends else kept
    return one_line(" ".join(kept).rstrip(" ,;:–—-"), MAX_TITLE)


def keywords_of(given: Sequence[str], most: int, spare: Sequence[str] = ()) -> tuple[str, ...]:
    """At most so many different keywords; if there are fewer than three, spare ones join them."""
    found: dict[str, str] = {}
    for word in given:
        line = clean_line(word, MAX_KEYWORD).strip("\"'`#.,;: ")
        if line:
            found.setdefault(line.lower(), line)
    for word in spare:
        if len(found) >= MIN_KEYWORDS:
            break
        found.setdefault(word.lower(), word)
    return tuple(found.values())[:most]


@dataclass(frozen=True, slots=True)
class Prompt(Generic[A]):
    """Everything that is asked of a model at once."""

    purpose: str
    system: str
    prompt: str
    form: type[A]
    #: What is wrong with an answer of the right form, in words that a model can mend it by; empty if nothing is.
    wrong_with: Callable[[A], str] = field(default=lambda answer: "", compare=False)


@dataclass(frozen=True, slots=True)
class Claims:
    """What is known of a material without a model: what stands, each with its kind, and what was refuted.

    What stands is `shown` to the model unless it is the material itself.
    """

    standing: tuple[tuple[Kind, str], ...] = ()
    refuted: tuple[str, ...] = ()
    shown: bool = True

    def told(self) -> list[str]:
        """The same as a model reads it: data, and so between fences. Of what stands, what matters most."""
        weighed = [(kind.weight, (kind, text)) for kind, text in self.standing if self.shown]
        telling = sorted((one for one in weighed if one[0] > Kind.STATED.weight), key=lambda one: -one[0])
        listed = [one for _, one in telling[:_MOST_STANDING]]
        kept = [one for one in self.standing if one in listed]
        standing = "\n".join(f"{kind}: {one_line(text, MAX_BULLET)}" for kind, text in dict.fromkeys(kept))
        numbered = enumerate(self.refuted[:_MOST_REFUTED], 1)
        refuted = "\n".join(f"[{number}] {one_line(text, MAX_BULLET)}" for number, text in numbered)
        parts = (("standing", standing), ("refuted", refuted))
        return [f"{_told(name)}\n{_fenced(name, text)}" for name, text in parts if text]

    def wrong_with(self, answer: SectionAnswer | MergeAnswer | RecordAnswer) -> str:
        """Whether an answer tells something as true that was refuted. It is named by its number: its words are data."""
        if isinstance(answer, RecordAnswer):
            told = [answer.summary[found.start : found.end] for found in sentences(answer.summary)]
            texts = [*answer.key_points, *answer.decisions, *told]
        else:
            texts = [answer.title, *(bullet.text for bullet in answer.bullets if bullet.kind is not Kind.REFUSED)]
        for number, claim in enumerate(self.refuted[:_MOST_REFUTED], 1):
            if any(self._repeats(text, claim) for text in texts):
                return _told("repeated", number=number)
        return ""

    def _repeats(self, text: str, claim: str) -> bool:
        """Whether a text asserts the same as a claim: it neither denies it nor is closer to something that stands."""
        from mcp_memory.summaries.truth import SAME

        told = terms(text)
        alike = similar(told, terms(claim))
        said, meant = ({*re.findall(r"[^\W\d_']+(?:'\w+)?", part.lower())} for part in (text, claim))
        denied = (said - meant) & lexicon.word_lists("prompts")["denials"]
        return alike >= SAME and not denied and all(similar(told, terms(other)) < alike for _, other in self.standing)


NOTHING = Claims()


def section(
    purpose: str,
    transcript: str,
    context: str,
    prior: str,
    claims: Claims,
    bullets: tuple[int, int],
    keywords: int,
) -> Prompt[SectionAnswer]:
    """Summarize a stretch of conversation, or one section of it."""
    task = _told("section", least=bullets[0], most=bullets[1], keywords=keywords, kinds=_kinds())
    said_before = f"What was said just before; it is not to be cited:\n{_fenced('before', context)}"
    parts = [*claims.told(), said_before] if context.strip() else claims.told()
    asked = _question(purpose, f"{task}\n\n{_told('truth')}", transcript, SectionAnswer, prior, *parts)
    return replace(asked, wrong_with=claims.wrong_with)


def merge(
    purpose: str,
    points: str,
    what: str,
    prior: str,
    claims: Claims,
    bullets: tuple[int, int],
    keywords: int,
) -> Prompt[MergeAnswer]:
    """Summarize numbered points into fewer."""
    task = _told("merge", what=what, least=bullets[0], most=bullets[1], keywords=keywords, kinds=_kinds())
    asked = _question(purpose, f"{task}\n\n{_told('truth')}", points, MergeAnswer, prior, *claims.told())
    return replace(asked, wrong_with=claims.wrong_with)


def record(purpose: str, transcript: str, prior: str, claims: Claims) -> Prompt[RecordAnswer]:
    """Condense a part of a session, so that the work can go on without its words."""
    task = f"{_told('record')}\n{_told('record_goes_on')}" if prior else _told("record")
    asked = _question(purpose, f"{task}\n\n{_told('truth')}", transcript, RecordAnswer, prior, *claims.told())
    return replace(asked, wrong_with=claims.wrong_with)


def prose(purpose: str, content: str, length: str, *, content_type: str, prior: str) -> Prompt[TextAnswer]:
    """Summarize any text: `length` is brief, standard, section, merge or record."""
    kind = content_type if content_type != "general" else "text"
    merged = f"the sections of a {kind}, already summarized"
    whole = {"section": f"one section of a longer {kind}", "merge": merged, "record": merged}
    focus = content_type if content_type in CONTENT_TYPES else "general"
    task = _told(
        "prose",
        what=whole.get(length, f"this {kind}"),
        length=_told(f"length_{length}"),
        focus=_told(f"focus_{focus}"),
    )
    task = f"{task}\n{_told('prose_goes_on')}" if prior else task
    task = f"{task}\n\n{_told('truth')}" if content_type == "conversation" else task
    return _question(purpose, task, content, TextAnswer, prior)


def again(question: Prompt[A], problem: str) -> Prompt[A]:
    """The same question, with what was wrong with the first answer."""
    return replace(question, prompt=f"{question.prompt}\n\n{_told('again', problem=problem)}")


def _told(section: str, **filled: object) -> str:
    text = "\n".join(lexicon.sections("prompts")[section])
    return text.format(**filled) if filled else text


def _kinds() -> str:
    return ", ".join(f"{kind} ({meaning})" for kind, meaning in WRITTEN.items())


def _question(purpose: str, task: str, material: str, form: type[A], prior: str, *parts: str) -> Prompt[A]:
    fenced = _fenced("material", material)
    opening, _, _ = fenced.partition("\n")
    schema = form.model_json_schema()
    rules = _told("rules", open=opening, close=f"</{opening[1:]}")
    shape = _told("form", form=json.dumps(_example(schema, schema), ensure_ascii=False))
    if prior.strip():
        parts = (f"The summary so far, a record like the material:\n{_fenced('earlier', prior)}", *parts)
    prompt = "\n\n".join(part for part in [*parts, fenced] if part)
    return Prompt(purpose, "\n\n".join([task, rules, shape]), prompt, form)


def _example(schema: dict[str, Any], whole: dict[str, Any]) -> Any:
    """A form as words show it: every text is `…` and every number 1."""
    if "$ref" in schema:
        return _example(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    if "properties" in schema:
        return {name: _example(field, whole) for name, field in schema["properties"].items()}
    if schema["type"] == "array":
        return [_example(schema["items"], whole)]
    return 1 if schema["type"] == "integer" else "…"


def _fenced(kind: str, text: str) -> str:
    """A text between tags that it cannot close, since it would have to hold its own hash."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=5, person=b"fence").hexdigest()
    return f"<{kind}-{digest}>\n{printable(text).strip(chr(10))}\n</{kind}-{digest}>"
