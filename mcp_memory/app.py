"""The composition root: everything is wired here, and nowhere else."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

from mcp_memory.adapters import tokens
from mcp_memory.adapters.clients import ADAPTERS
from mcp_memory.adapters.sqlite.backlog import SqliteBacklog
from mcp_memory.adapters.sqlite.briefs import SqliteBriefs
from mcp_memory.adapters.sqlite.database import Database
from mcp_memory.adapters.sqlite.events import SqliteEvents
from mcp_memory.adapters.sqlite.lease import SqliteLease
from mcp_memory.adapters.sqlite.meta import timezone_of
from mcp_memory.adapters.sqlite.reading import SqliteLibrary
from mcp_memory.adapters.sqlite.segments import SqliteSegments
from mcp_memory.adapters.sqlite.tree import SqliteTree
from mcp_memory.adapters.summarizers.extractive import ExtractiveSummarizer
from mcp_memory.capture.project import detect
from mcp_memory.config import Settings, system_timezone
from mcp_memory.domain.segments import Rules
from mcp_memory.navigate.answers import Answers
from mcp_memory.navigate.render import Renderer
from mcp_memory.pipeline.brief import Briefs
from mcp_memory.pipeline.loop import Pipeline
from mcp_memory.pipeline.prepare import Intaker
from mcp_memory.ports import Clock

logger = logging.getLogger(__name__)


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class FixedClock:
    moment_ms: int

    def now_ms(self) -> int:
        return self.moment_ms


@dataclass(frozen=True, slots=True)
class App:
    """An open memory."""

    settings: Settings
    database: Database
    log: SqliteEvents
    library: SqliteLibrary
    intaker: Intaker
    pipeline: Pipeline
    answers: Answers
    clock: Clock
    zone: ZoneInfo
    home_root: str
    home_label: str


@asynccontextmanager
async def open_app(settings: Settings, cwd: Path | None = None, clock: Clock | None = None) -> AsyncIterator[App]:
    """Open the memory of these settings, as seen from a directory."""
    clock = clock or (FixedClock(settings.now_ms) if settings.now_ms is not None else SystemClock())
    async with Database.open(settings.database) as database:
        zone = ZoneInfo(await timezone_of(database, settings.calendar.timezone or system_timezone()))
        if settings.calendar.timezone not in ("", zone.key):
            logger.warning(
                "The days of this memory are those of %s; `mcp-memory process --rebuild` changes them to %s.",
                zone.key,
                settings.calendar.timezone,
            )
        library = SqliteLibrary(database)
        place = detect(str(cwd or _cwd()), {"MCP_MEMORY_PROJECT": settings.project} if settings.project else {})
        intaker = Intaker(settings.capture.max_event_bytes, settings.segmentation.tool_result_chars, tokens.count_all)
        log = SqliteEvents(database)
        yield App(
            settings=settings,
            database=database,
            log=log,
            library=library,
            intaker=intaker,
            pipeline=_pipeline(settings, database, log, intaker, clock, zone),
            answers=Answers(library, Renderer(tokens.count, tokens.cut_to, zone), clock, zone, place.root, place.label),
            clock=clock,
            zone=zone,
            home_root=place.root,
            home_label=place.label,
        )


def _pipeline(
    settings: Settings, database: Database, log: SqliteEvents, intaker: Intaker, clock: Clock, zone: ZoneInfo
) -> Pipeline:
    return Pipeline(
        log=log,
        segments=SqliteSegments(database),
        tree=SqliteTree(database),
        briefs=Briefs(
            SqliteBriefs(database), tokens.count, settings.brief.budget_tokens, clock, settings.brief.enabled
        ),
        backlog=SqliteBacklog(database),
        lease=SqliteLease(database),
        summarizer=ExtractiveSummarizer(),
        adapters=dict(ADAPTERS),
        intaker=intaker,
        rules=rules_of(settings),
        zone=zone,
        spool=settings.spool,
        clock=clock,
        count=tokens.count,
        data_version=database.data_version,
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
