"""The composition root: everything is wired here, and nowhere else."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo

from mcp_memory.capture.project import detect
from mcp_memory.clients import ADAPTERS
from mcp_memory.config import Settings
from mcp_memory.domain.budget import Tokenizer
from mcp_memory.domain.compaction import CompactionRules, parse_table
from mcp_memory.domain.segments import Rules
from mcp_memory.errors import SettingsError, how_to_add
from mcp_memory.models import tokens
from mcp_memory.pipeline.brief import Briefs
from mcp_memory.pipeline.compact import Compactor, Condenser
from mcp_memory.pipeline.ingest import Intaker
from mcp_memory.pipeline.loop import Pipeline
from mcp_memory.pipeline.upgrade import Rewrites, Upgrades
from mcp_memory.store.port import Clock, IndexKeeper, SearchIndex
from mcp_memory.store.sqlite.backup import Backups
from mcp_memory.store.sqlite.briefs import SqliteBriefs
from mcp_memory.store.sqlite.database import Database
from mcp_memory.store.sqlite.fts5 import Fts5Index
from mcp_memory.store.sqlite.ledger import SqliteLedger, SqliteUpgrades
from mcp_memory.store.sqlite.log import SqliteEvents
from mcp_memory.store.sqlite.nodes import SqliteTree
from mcp_memory.store.sqlite.reads import SqliteChronicle, SqliteLibrary
from mcp_memory.store.sqlite.rebuild import mend_times, system_timezone, timezone_of
from mcp_memory.store.sqlite.records import SqliteCompactions, SqliteRewrites
from mcp_memory.store.sqlite.segments import SqliteSegments
from mcp_memory.store.sqlite.work import SqliteBacklog, SqliteLease
from mcp_memory.summaries import ExtractiveFacets, ExtractiveSummarizer

if TYPE_CHECKING:
    from mcp_memory.models.caller import Caller
    from mcp_memory.navigate.answers import Answers
    from mcp_memory.navigate.context import Contexts
    from mcp_memory.navigate.sessions import Sessions

logger = logging.getLogger(__name__)
T = TypeVar("T")


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class FixedClock:
    moment_ms: int

    def now_ms(self) -> int:
        return self.moment_ms


@dataclass(frozen=True)
class App:
    """An open memory. Its read side is loaded when something is asked: importing and processing do without."""

    settings: Settings
    database: Database
    log: SqliteEvents
    library: SqliteLibrary
    intaker: Intaker
    pipeline: Pipeline
    chronicle: SqliteChronicle
    compactions: SqliteCompactions
    clock: Clock
    zone: ZoneInfo
    home_root: str
    home_label: str
    #: Whether its answers are for the command line.
    typed: bool
    #: Whether it answers agents, who may not read everything.
    served: bool
    ledger: SqliteLedger
    index: IndexKeeper
    #: The model that is set, and what it upgrades; none for the extractive summarizer.
    caller: Caller | None = None
    upgrades: Upgrades | None = None

    @cached_property
    def answers(self) -> Answers:
        from mcp_memory.navigate.answers import Answers
        from mcp_memory.navigate.rendering import Renderer
        from mcp_memory.navigate.scope import Reach

        # Fitting an answer into its budget counts the same lines several times.
        count = lru_cache(maxsize=128)(tokens.count)
        renderer = Renderer(count, tokens.cut_to, self.typed, self.zone)
        reach = Reach.EVERYTHING
        if self.served:
            reach = Reach.HOME if self.settings.privacy.isolate else Reach.NAMED
        return Answers(self.library, renderer, self.clock, self.zone, self.home_root, self.home_label, reach)

    async def ask(self, question: Callable[[Answers], Coroutine[Any, Any, T]]) -> T:
        """The answer to a question, all of it read from one state of the memory."""
        return await self.library.at_once(lambda library: question(replace(self.answers, library=library)))

    @cached_property
    def contexts(self) -> Contexts:
        from mcp_memory.navigate.context import Contexts

        return Contexts(self.answers, self.chronicle)

    @cached_property
    def sessions(self) -> Sessions:
        from mcp_memory.navigate.sessions import Sessions

        return Sessions(self.answers, self.chronicle)


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
    # Money is spent in real time, even where the memory's clock is stood still.
    spending = clock or SystemClock()
    clock = clock or (FixedClock(settings.now_ms) if settings.now_ms is not None else SystemClock())
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database.open(settings.database))
        await mend_times(database, clock.now_ms())
        await database.scrub()
        zone = await _zone(settings, database)
        index, keeper = _index(settings, database, stack)
        library = SqliteLibrary(database, index)
        place = detect(str(cwd or _cwd()), {"MCP_MEMORY_PROJECT": settings.project} if settings.project else {})
        intaker = Intaker(settings.capture.max_event_bytes, settings.segmentation.tool_result_chars, tokens.count_all)
        log = SqliteEvents(database)
        chosen = settings.summarizer
        cap = chosen.daily_token_cap if chosen.kind != "extractive" else 0
        ledger = SqliteLedger(database, spending, zone, cap, chosen.price_table)
        caller = _caller(settings, ledger, spending)
        if caller:
            stack.push_async_callback(caller.close)
        compactor = _compactor(settings, database, clock)
        upgrades = _upgrades(database, caller, compactor, zone) if caller else None
        backups = Backups(database, settings.backup.keep, SqliteLease(database, name="backup"), spending)
        yield App(
            settings=settings,
            database=database,
            log=log,
            library=library,
            intaker=intaker,
            pipeline=_pipeline(settings, database, log, intaker, clock, zone, compactor, upgrades, keeper, backups),
            index=keeper,
            chronicle=SqliteChronicle(database),
            compactions=SqliteCompactions(database),
            clock=clock,
            zone=zone,
            home_root=place.root,
            home_label=place.label,
            typed=typed,
            served=served,
            ledger=ledger,
            caller=caller,
            upgrades=upgrades,
        )


async def _zone(settings: Settings, database: Database) -> ZoneInfo:
    """The zone of the memory's days, which was fixed when it was first used."""
    wanted = settings.calendar.timezone
    zone = ZoneInfo(await timezone_of(database, wanted or system_timezone()))
    if wanted not in ("", zone.key):
        logger.warning(
            "The days of this memory are those of %s; `mcp-memory process --rebuild` changes them to %s.",
            zone.key,
            wanted,
        )
    return zone


def _index(settings: Settings, database: Database, stack: AsyncExitStack) -> tuple[SearchIndex, IndexKeeper]:
    """The index that is set. FTS5 is always written, with the data, and stands in while Whoosh is out of step."""
    if settings.index.kind == "fts5":
        fts5 = Fts5Index(database, leftovers=settings.whoosh)
        return fts5, fts5
    if find_spec("whoosh") is None:
        raise SettingsError(
            'The setting [index] kind = "whoosh" needs a package that is not installed: '
            f'{how_to_add("whoosh")}, or set it to "fts5".'
        )
    from mcp_memory.store.whoosh.index import WhooshIndex
    from mcp_memory.store.whoosh.keeping import WhooshKeeper

    whoosh = WhooshIndex(database, settings.whoosh, Fts5Index(database))
    stack.callback(whoosh.close)
    return whoosh, WhooshKeeper(database, settings.whoosh)


def _caller(settings: Settings, ledger: SqliteLedger, clock: Clock) -> Caller | None:
    """The model that is set. Its parts are imported only if there is one."""
    chosen = settings.summarizer
    if chosen.kind == "extractive":
        return None
    from mcp_memory.models.caller import build

    return build(
        chosen.kind,
        chosen.preferred,
        api_key=settings.api_key,
        base_url=chosen.base_url,
        max_output_tokens=chosen.max_output_tokens,
        timeout_seconds=chosen.timeout_seconds,
        concurrency=chosen.concurrency,
        ledger=ledger,
        count=tokens.count,
        clock=clock,
    )


def _upgrades(database: Database, caller: Caller, compactor: Compactor, zone: ZoneInfo) -> Upgrades:
    from mcp_memory.models.summarizer import ModelRecords, ModelSummarizer

    compactor.author = author = ModelRecords(caller)
    return Upgrades(
        SqliteUpgrades(database),
        ModelSummarizer(caller, ExtractiveSummarizer(), tokens.count),
        SqliteLease(database, name="upgrades"),
        zone,
        tokens.count_all,
        compactor.clock,
        records=Rewrites(SqliteRewrites(database), compactor, author),
    )


def _pipeline(
    settings: Settings,
    database: Database,
    log: SqliteEvents,
    intaker: Intaker,
    clock: Clock,
    zone: ZoneInfo,
    compactor: Compactor,
    upgrades: Upgrades | None,
    keeper: IndexKeeper,
    backups: Backups,
) -> Pipeline:
    async def zone_of_days() -> ZoneInfo:
        return ZoneInfo(await timezone_of(database, zone.key))

    return Pipeline(
        log=log,
        segments=SqliteSegments(database),
        tree=SqliteTree(database),
        briefs=Briefs(
            SqliteBriefs(database), tokens.count, settings.brief.budget_tokens, clock, settings.brief.enabled
        ),
        compactor=compactor,
        backlog=SqliteBacklog(database),
        lease=SqliteLease(database),
        index=keeper,
        summarizer=ExtractiveSummarizer(),
        adapters=dict(ADAPTERS),
        intaker=intaker,
        rules=rules_of(settings),
        zone_of_days=zone_of_days,
        spool=settings.spool,
        clock=clock,
        count_all=tokens.count_all,
        data_version=database.data_version,
        scrub=database.scrub,
        backup=backups.refresh,
        upgrades=upgrades,
    )


def _compactor(settings: Settings, database: Database, clock: Clock) -> Compactor:
    chosen = settings.compaction
    tokenizer = Tokenizer(tokens.count, tokens.cut_to)
    return Compactor(
        store=SqliteCompactions(database),
        condenser=Condenser(ExtractiveSummarizer(), ExtractiveFacets(), tokenizer),
        rules=CompactionRules(
            enabled=chosen.enabled,
            trigger_ratio=chosen.trigger_ratio,
            reset_ratio=chosen.reset_ratio,
            min_messages=chosen.min_messages,
            preserve_recent=chosen.preserve_recent,
            max_depth=chosen.max_depth,
            cooldown_messages=chosen.cooldown_messages,
            refresh_after_messages=chosen.refresh_after_messages,
        ),
        tokens=tokenizer,
        clock=clock,
        brief_tokens=settings.brief.budget_tokens if settings.brief.enabled else 0,
        windows=parse_table(chosen.context_lengths),
    )


def rules_of(settings: Settings) -> Rules:
    chosen = settings.segmentation
    return Rules(
        gap_ms=chosen.gap_minutes * 60_000,
        max_tokens=chosen.max_tokens,
        overlap_ms=chosen.overlap_minutes * 60_000,
        overlap_tokens=chosen.overlap_tokens,
    )


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"
