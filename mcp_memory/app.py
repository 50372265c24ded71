"""The composition root: everything is wired here, and nowhere else."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from mcp_memory.capture.project import detect
from mcp_memory.config import Settings
from mcp_memory.domain.budget import Tokenizer
from mcp_memory.domain.compaction import CompactionRules, parse_table
from mcp_memory.domain.segments import Rules
from mcp_memory.errors import SettingsError, how_to_add
from mcp_memory.models import tokens
from mcp_memory.models.port import Ledger
from mcp_memory.store.port import Clock, IndexKeeper, Store
from mcp_memory.store.sqlite.fts5 import Fts5Index
from mcp_memory.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from mcp_memory.models.caller import Caller
    from mcp_memory.navigate.answers import Answers
    from mcp_memory.navigate.context import Contexts
    from mcp_memory.navigate.sessions import Sessions
    from mcp_memory.pipeline.compact import Compactor
    from mcp_memory.pipeline.ingest import Intaker
    from mcp_memory.pipeline.loop import Pipeline
    from mcp_memory.pipeline.upgrade import Upgrades
    from mcp_memory.store.sqlite.inbox import SqliteInbox

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's time, or the one at which a setting has it stand still."""

    fixed_ms: int | None = None

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 if self.fixed_ms is None else self.fixed_ms


@dataclass(frozen=True)
class App:
    """An open memory. Its parts are made when first used: a question needs no pipeline, an import no answers."""

    settings: Settings
    store: Store
    index: IndexKeeper
    clock: Clock
    #: Money is spent in real time, even where the memory's clock is stood still.
    spending: Clock
    zone: ZoneInfo
    home_root: str
    home_label: str
    #: Whether its answers are for the command line.
    typed: bool
    #: Whether it answers agents, who may not read everything.
    served: bool
    _exits: AsyncExitStack

    @cached_property
    def inbox(self) -> SqliteInbox:
        from mcp_memory.store.sqlite.inbox import SqliteInbox

        return SqliteInbox(self.settings.inbox, self.store.identity, self._exits)

    @cached_property
    def ledger(self) -> Ledger:
        chosen = self.settings.summarizer
        cap = chosen.daily_token_cap if chosen.kind != "extractive" else 0
        return self.store.ledger(self.spending, self.zone, cap, chosen.price_table)

    @cached_property
    def caller(self) -> Caller | None:
        """The model that is set; none for the extractive summarizer. It is closed with the app."""
        chosen = self.settings.summarizer
        if chosen.kind == "extractive":
            return None
        from mcp_memory.models.caller import build

        caller = build(
            chosen.kind,
            chosen.preferred,
            api_key=self.settings.api_key,
            base_url=chosen.base_url,
            max_output_tokens=chosen.max_output_tokens,
            timeout_seconds=chosen.timeout_seconds,
            concurrency=chosen.concurrency,
            ledger=self.ledger,
            count=tokens.count,
            clock=self.spending,
        )
        self._exits.push_async_callback(caller.close)
        return caller

    @cached_property
    def intaker(self) -> Intaker:
        from mcp_memory.pipeline.ingest import Intaker

        settings = self.settings
        return Intaker(settings.capture.max_event_bytes, settings.segmentation.tool_result_chars, tokens.count_all)

    @cached_property
    def compactor(self) -> Compactor:
        from mcp_memory.pipeline.compact import Compactor
        from mcp_memory.summaries import ExtractiveFacets, ExtractiveSummarizer

        brief, rules = self.settings.brief, asdict(self.settings.compaction)
        windows = parse_table(rules.pop("context_lengths"))
        return Compactor(
            store=self.store,
            inbox=self.inbox,
            quick=ExtractiveSummarizer(),
            facets=ExtractiveFacets(),
            rules=CompactionRules(**rules),
            tokens=Tokenizer(tokens.count, tokens.cut_to),
            clock=self.clock,
            brief_tokens=brief.budget_tokens if brief.enabled else 0,
            windows=windows,
        )

    @cached_property
    def upgrades(self) -> Upgrades | None:
        """What the model, if one is set, writes again."""
        if not self.caller:
            return None
        from mcp_memory.models.summarizer import ModelRecords, ModelSummarizer
        from mcp_memory.pipeline.upgrade import Upgrades
        from mcp_memory.summaries import ExtractiveSummarizer

        self.compactor.author = ModelRecords(self.caller)
        return Upgrades(
            self.store,
            ModelSummarizer(self.caller, ExtractiveSummarizer(), tokens.count),
            self.store.lease("upgrades"),
            self.zone,
            tokens.count_all,
            self.compactor,
        )

    @cached_property
    def pipeline(self) -> Pipeline:
        from mcp_memory.clients import CLIENTS
        from mcp_memory.pipeline.brief import Briefs
        from mcp_memory.pipeline.loop import Pipeline
        from mcp_memory.summaries import ExtractiveSummarizer

        settings, store = self.settings, self.store

        async def zone_of_days() -> ZoneInfo:
            return ZoneInfo(await store.timezone(self.zone.key))

        upgrades = self.upgrades  # gives the compactor its author, so it comes first
        brief = settings.brief
        return Pipeline(
            store=store,
            inbox=self.inbox,
            briefs=Briefs(store, self.inbox, tokens.count, brief.budget_tokens, self.clock, brief.enabled),
            compactor=self.compactor,
            lease=store.lease(),
            index=self.index,
            summarizer=ExtractiveSummarizer(),
            clients=dict(CLIENTS),
            intaker=self.intaker,
            rules=rules_of(settings),
            zone_of_days=zone_of_days,
            spool=settings.spool,
            clock=self.clock,
            backup=lambda: store.refresh_backups(settings.backup.keep, self.spending),
            upgrades=upgrades,
        )

    @cached_property
    def answers(self) -> Answers:
        from mcp_memory.navigate.answers import Answers
        from mcp_memory.navigate.browse import Reach
        from mcp_memory.navigate.rendering import Renderer

        # Fitting an answer into its budget counts the same lines several times.
        count = lru_cache(maxsize=128)(tokens.count)
        renderer = Renderer(count, tokens.cut_to, self.typed, self.zone)
        reach = Reach.EVERYTHING
        if self.served:
            reach = Reach.HOME if self.settings.privacy.isolate else Reach.NAMED
        return Answers(self.store, renderer, self.clock, self.zone, self.home_root, self.home_label, reach)

    @cached_property
    def contexts(self) -> Contexts:
        from mcp_memory.navigate.context import Contexts

        return Contexts(self.answers)

    @cached_property
    def sessions(self) -> Sessions:
        from mcp_memory.navigate.sessions import Sessions

        return Sessions(self.answers)


@asynccontextmanager
async def open_app(
    settings: Settings,
    cwd: Path | None = None,
    clock: Clock | None = None,
    *,
    typed: bool = False,
    served: bool = False,
) -> AsyncIterator[App]:
    """Open the memory of these settings, as seen from a directory.

    `typed`: its answers are for the command line; `served`: agents ask, for whom an unknown place is no licence to read
    all there is.
    """
    spending = clock or SystemClock()
    clock = clock or SystemClock(settings.now_ms)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(SqliteStore.open(settings.database, clock.now_ms()))
        keeper = _index(settings, store, stack)
        zone = await _zone(settings, store)
        place = detect(str(cwd or _cwd()), {"MCP_MEMORY_PROJECT": settings.project} if settings.project else {})
        yield App(settings, store, keeper, clock, spending, zone, place.root, place.label, typed, served, stack)


async def _zone(settings: Settings, store: Store) -> ZoneInfo:
    """The zone of the memory's days, which was fixed when it was first used."""
    wanted = settings.calendar.timezone
    zone = ZoneInfo(await store.timezone(wanted or system_timezone()))
    if wanted not in ("", zone.key):
        logger.warning(
            "The days of this memory are those of %s; `mcp-memory process --rebuild` changes them to %s.",
            zone.key,
            wanted,
        )
    return zone


def _index(settings: Settings, store: SqliteStore, stack: AsyncExitStack) -> IndexKeeper:
    """Let the index answer that is set. FTS5 is always written, and stands in while Whoosh is out of step."""
    if settings.index.kind == "fts5":
        return Fts5Index(store.database, leftovers=settings.whoosh)
    if find_spec("whoosh") is None:
        raise SettingsError(
            'The setting [index] kind = "whoosh" needs a package that is not installed: '
            f'{how_to_add("whoosh")}, or set it to "fts5".'
        )
    from mcp_memory.store.whoosh.index import WhooshIndex

    whoosh = WhooshIndex(store, settings.whoosh, Fts5Index(store.database))
    stack.callback(whoosh.close)
    store.use(whoosh)
    return whoosh


def rules_of(settings: Settings) -> Rules:
    chosen = settings.segmentation
    return Rules(
        gap_ms=chosen.gap_minutes * 60_000,
        max_tokens=chosen.max_tokens,
        overlap_ms=chosen.overlap_minutes * 60_000,
        overlap_tokens=chosen.overlap_tokens,
    )


def system_timezone() -> str:
    """The machine's zone, UTC where it cannot be told."""
    from tzlocal import get_localzone_name

    try:
        name = get_localzone_name() or "UTC"
        ZoneInfo(name)
    except Exception:
        return "UTC"
    return name


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"
