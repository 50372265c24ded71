"""What every engine of the store must keep, told through its port alone. What an index must find is told beside it."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from mcp_memory.domain.events import MESSAGES, Event, EventQuery, EventType, Intake, Role, TurnOutline
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.records import Account, Body, Record, record_key
from mcp_memory.domain.segments import Rules, busy
from mcp_memory.domain.terms import Within
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.errors import NotFound, UsageError
from mcp_memory.pipeline.segment import segment
from mcp_memory.store.port import Store
from tests.store.engines import DAY_REF, HOUR, LATER, START, Open, add, build, long_talk, said, talk, texts

pytestmark = pytest.mark.anyio


# the log


async def test_adding_twice_adds_nothing(opened: Open) -> None:
    async with opened() as store:
        assert await add(store, *talk()) == 2
        assert await add(store, *talk()) == 0


@pytest.mark.parametrize("sources", [("hook", "hook"), ("hook", "transcript")], ids=["one source", "two sources"])
async def test_two_processes_that_add_the_same_at_once_add_it_once(opened: Open, sources: tuple[str, str]) -> None:
    counts: list[int] = []

    async def take(store: Store, via: str) -> None:
        events = [said(f"Message {number}.", number, name=f"{via} {number}", via=via) for number in range(40)]
        counts.extend([await add(store, *events[start : start + 4]) for start in range(0, 40, 4)])

    async with opened() as one, opened() as two, anyio.create_task_group() as tasks:
        tasks.start_soon(take, one, sources[0])
        tasks.start_soon(take, two, sources[1])
    async with opened() as store:
        assert sum(counts) == len(await store.log(0, None, 99)) == 40


async def test_hook_and_transcript_of_one_message_are_one_event_with_both_names(opened: Open) -> None:
    async with opened() as store:
        hook = replace(said("Fix the build", 0, name="p1", via="hook"), source_ids=("p1",))
        line = replace(said("Fix the build", 0.01, name="p1", via="transcript"), source_ids=("uuid-1",))
        assert (await add(store, hook), await add(store, line)) == (1, 0)
        [stored] = await store.events(EventQuery())
    assert stored.source_ids == ("uuid-1", "p1")


async def test_the_same_words_told_by_two_sources_within_two_minutes_are_one(opened: Open) -> None:
    async with opened() as store:
        assert await add(store, said("Fix  the build", 0, via="hook")) == 1
        assert await add(store, said("Fix the build", 2, via="transcript")) == 0
        assert await add(store, said("Fix the build", 2.001, via="transcript")) == 1
        assert await add(store, said("yes", 9, name="a", via="hook"), said("yes", 9.1, name="b", via="hook")) == 2


async def test_two_accounts_of_one_compaction_are_one(opened: Open) -> None:
    def compaction(text: str, via: str) -> Event:
        return said(text, 0, kind=EventType.COMPACTION, via=via)

    async with opened() as store:
        assert await add(store, compaction("This session is continued. Summary: all well.", "transcript")) == 1
        assert await add(store, compaction("Summary: all well.", "hook")) == 0


async def test_a_trial_tells_what_is_new_and_stores_nothing(opened: Open) -> None:
    async with opened() as store:
        await add(store, said("Known.", 0))
        trial = store.trial()
        for expected in (["New."], []):
            fresh = await trial([Intake((said("Known.", 0), said("New.", 1)), "/home/ada/beta")])
            assert [event.text for intake in fresh for event in intake.events] == expected
        assert await texts(store, EventQuery()) == ["Known."]


async def test_events_are_asked_for_by_session_kind_place_and_moment(opened: Open) -> None:
    async with opened() as store:
        tool = said("exit 0", 2, kind=EventType.TOOL_RESULT)
        note = said("Ada reviews.", 3, session="notes", kind=EventType.NOTE, pin=True)
        await add(store, *talk(), tool, note, said("Another client.", 1, client="codex"))
        then = await store.position()
        await add(store, said("Later.", 4, client="codex"))
        assert await texts(store, EventQuery(session_id="s1", types=MESSAGES)) == ["Another client.", "Later."]
        own = EventQuery(session_id="s1", client="claude-code")
        assert await texts(store, replace(own, last=1)) == ["exit 0"]
        assert len(await store.events(replace(own, types=MESSAGES))) == 2
        assert await texts(store, EventQuery(session_id="s1", at=then)) == ["Another client."]
        assert await texts(store, EventQuery("alpha", pinned=True)) == ["Ada reviews."]
        account = await store.account("s1")
        assert account
        first, last = (turn.place for turn in account.turns)
        shared = EventQuery(session_id="s1", client="codex")
        assert await texts(store, replace(shared, after=first)) == ["Later."]
        assert await texts(store, replace(shared, through=first)) == ["Another client."]
        assert await texts(store, replace(shared, after=last)) == []


async def test_a_note_is_pinned_in_its_place_and_its_brief_is_due(opened: Open) -> None:
    async with opened() as store:
        note = said("Ada reviews größere Änderungen.", 3, session="notes", kind=EventType.NOTE, kind_of="rule")
        spoken = said("Ada reviews nothing.", 4)
        await add(store, note, spoken)
        await add(store, said("Elsewhere.", 5, session="s9"), root="/home/ada/beta")
        assert not await store.outdated_briefs(5)
        assert await store.pin(note.key, True)
        assert await store.pin(note.key, True)
        [pinned] = await store.events(EventQuery("alpha", pinned=True))
        assert (pinned.key, pinned.text, pinned.metadata) == (note.key, note.text, {"kind_of": "rule", "pin": True})
        [brief] = await store.outdated_briefs(5)
        assert (brief.slug, [event.key for event in brief.notes]) == ("alpha", [note.key])
        assert await store.pin(note.key, False)
        assert await store.events(EventQuery("alpha", pinned=True)) == []
        assert await texts(store, EventQuery("alpha", types=(EventType.NOTE,), last=9)) == [note.text]
        assert not await store.pin(spoken.key, True)
        assert not await store.pin(b"0" * 10, True)


async def test_the_log_is_read_on_in_the_order_in_which_it_was_stored(opened: Open) -> None:
    async with opened() as store:
        await add(store, said("Second by time.", 9), root="/home/ada/alpha")
        await add(store, said("First by time.", 0, session="s2"), root="/home/ada/beta")
        (number, event), (last, _) = await store.log(0, None, 9)
        assert (event.text, event.project) == ("Second by time.", "alpha")
        assert [event.text for _, event in await store.log(number, None, 9)] == ["First by time."]
        assert await store.log(0, "beta", 9) == (await store.log(number, None, 9))
        assert await store.log(last, None, 9) == []


async def test_an_event_is_opened_by_its_key_with_what_was_said_around_it(opened: Open) -> None:
    events = [said(f"Message {number}.", number) for number in range(5)]
    async with opened() as store:
        await add(store, *events, said("Of another session.", 2, session="s2"))
        record = await store.grip(events[2].key, 1, 9)
        assert record
        assert [event.text for event in (*record.before, *record.after)] == ["Message 1.", "Message 3.", "Message 4."]
        assert record.cited
        assert record.cited.text == record.excerpt == "Message 2."
        assert await store.keys(events[2].key[:5]) == [events[2].key]
        assert await store.grip(b"0123456789", 1, 1) is None


# projects


async def test_a_session_stays_in_the_project_it_began_in(opened: Open) -> None:
    async with opened() as store:
        await add(store, said("One.", 0), root="/home/ada/alpha")
        await add(store, said("Two.", 1), root="/home/ada/beta")
        [info] = await store.projects()
    assert (info.slug, info.sessions, info.events, info.last_ms) == ("alpha", 1, 2, START + 60_000)


async def test_two_roots_of_one_name_get_two_slugs_and_a_given_name_joins_its_project(opened: Open) -> None:
    async with opened() as store:
        places = [("/x/app", ""), ("/y/app", ""), ("", "app"), ("C:\\z\\App2", "")]
        for number, (root, label) in enumerate(places):
            await add(store, said("hello", 0, session=f"s{number}"), root=root, label=label)
        infos = {info.slug: info.sessions for info in await store.projects()}
        assert (infos["app"], infos["app2"], len(infos)) == (2, 1, 3)
        assert await store.project_of_root("/x/app", "") == "app"
        assert (await store.root_of("app"), await store.root_of("nowhere")) == ("/x/app", None)


async def test_a_merge_gives_one_tree_and_keeps_every_word(opened: Open) -> None:
    async with opened() as store:
        await add(store, *talk())
        await add(store, *talk("s2", day=1), root="/home/ada/beta")
        await build(store)
        assert await store.merge("beta", "alpha") == 1
        await build(store)
        days = await store.nodes(NodeQuery(level=Level.DAY))
        assert [(day.project, day.ref.key) for day in days] == [("alpha", "2026-03-02"), ("alpha", "2026-03-03")]
        await add(store, said("More of it.", 9, session="s3"), root="/home/ada/beta")
        assert await store.slugs() == ["alpha"]
        assert len(await store.events(EventQuery("alpha"))) == 5


async def test_a_renamed_project_keeps_its_memory_and_its_root(opened: Open) -> None:
    async with opened() as store:
        await add(store, *talk())
        await build(store)
        assert await store.rename("alpha", "Omega One") == "omega-one"
        await add(store, said("More of it.", 9, session="s3"))
        assert await store.slugs() == ["omega-one"]
        assert {node.project for node in await store.nodes(NodeQuery())} == {"omega-one"}


async def test_wrong_names_of_projects_are_refused(opened: Open) -> None:
    async with opened() as store:
        await add(store, said("One.", 0), root="/home/ada/alpha")
        await add(store, said("Two.", 0, session="s2"), root="/home/ada/beta")
        for change in (store.rename("alpha", "beta"), store.rename("alpha", "?!"), store.merge("alpha", "alpha")):
            with pytest.raises(UsageError):
                await change
        with pytest.raises(NotFound, match="nowhere"):
            await store.merge("alpha", "nowhere")


# segments and nodes


async def test_a_session_that_grew_while_it_was_cut_is_cut_again(opened: Open) -> None:
    async with opened() as store, opened() as other:
        await add(store, said("One.", 0))
        lease = store.lease()
        assert await lease.acquire()
        assert lease.token
        [cutting] = await store.dirty(9, 0)
        await add(other, said("Two.", 1))
        await store.save_cuts([(cutting, [], [])], lease.token)
        assert [len(again.marks) for again in await store.dirty(9, 0)] == [2]


async def test_an_open_segment_waits_until_its_session_pauses(opened: Open) -> None:
    async with opened() as store:
        await add(store, *talk())
        lease, now = store.lease(), START + 61_000
        assert await lease.acquire()
        assert lease.token
        await segment(store, Rules(), now, lease.token)
        assert await store.jobs(9, busy(now)) == []
        [job] = await store.jobs(9, busy(now + HOUR))
    assert (len(job.events), job.context, job.slug, job.segment.closed) == (2, (), "alpha", False)


async def test_nodes_are_asked_for_by_place_level_parent_time_and_beginning(opened: Open) -> None:
    async with opened() as store:
        await add(store, *talk(), *talk("s2", day=1), *talk("s3", day=9))
        await build(store)

        async def keys(query: NodeQuery) -> list[str]:
            return [node.ref.key for node in await store.nodes(query)]

        days = ["2026-03-02", "2026-03-03", "2026-03-11"]
        week = NodeRef(Level.WEEK, "2026-W10")
        assert await keys(NodeQuery("alpha", level=Level.DAY)) == days
        assert await keys(NodeQuery.latest(None, Level.DAY, 2)) == [days[2], days[1]]
        assert await keys(NodeQuery("alpha", parent=week)) == days[:2]
        assert await keys(NodeQuery("alpha", (week, NodeRef(Level.DAY, "2026-01-01"), DAY_REF))) == [week.key, days[0]]
        assert await keys(NodeQuery("alpha", level=Level.DAY, beginning="2026-03-0")) == [days[1], days[0]]
        assert await keys(NodeQuery.touching("alpha", Level.DAY, START - 9 * HOUR, START + 15 * HOUR, 9)) == days[:1]
        assert await keys(NodeQuery.touching("alpha", Level.SEGMENT, START + 60_000, START + HOUR, 9)) != []
        assert await keys(NodeQuery.touching("alpha", Level.SEGMENT, START + 60_001, START + HOUR, 9)) == []
        assert await keys(NodeQuery("nowhere", level=Level.DAY)) == []
        assert await store.neighbours("alpha", NodeRef(Level.DAY, days[1])) == (
            f"toc:day:{days[0]}",
            f"toc:day:{days[2]}",
        )
        [full], [bare] = [await store.nodes(NodeQuery("alpha", (DAY_REF,), bullets=wanted)) for wanted in (True, False)]
        assert full.bullets
        assert full == replace(bare, bullets=full.bullets)


async def test_earlier_versions_stay_and_an_earlier_view_shows_them(opened: Open) -> None:
    async with opened() as store:
        await add(store, *talk())
        await build(store)
        then = await store.position()
        await add(store, said("And log every refresh of a token in app/audit.py, please.", 200))
        await build(store)
        versions = await store.nodes(NodeQuery("alpha", (DAY_REF,), versions=True))
        [now], [before] = [await store.nodes(NodeQuery("alpha", (DAY_REF,), at=at)) for at in (None, then)]
        beneath = [len(await store.nodes(NodeQuery("alpha", parent=DAY_REF, at=at))) for at in (None, then)]
    assert [node.version for node in versions] == [1, 2]
    assert (before, now, beneath) == (versions[0], versions[1], [2, 1])


async def test_what_was_made_of_something_that_changed_meanwhile_is_not_stored(opened: Open) -> None:
    async with opened() as store:
        await add(store, *long_talk())
        await build(store)
        [upgrade] = [found for found in await store.upgrades(9, LATER) if found.ref.level is Level.SEGMENT]
        [node] = await store.nodes(NodeQuery("alpha", (upgrade.ref,)))
        await add(store, said("A late word on the token cache.", 0.5))
        lease = store.lease()
        assert await lease.acquire()
        assert lease.token
        await segment(store, Rules(), LATER, lease.token)
        assert not await store.save_upgrade(upgrade, replace(node, written_by="model"), None, ())
        await lease.release()
        await build(store)
        [node] = await store.nodes(NodeQuery("alpha", (upgrade.ref,)))
        assert node.written_by == "extractive"


async def test_a_node_is_left_to_itself_after_a_failure_and_then_offered_again(opened: Open) -> None:
    async with opened() as store:
        await add(store, *long_talk())
        await build(store)
        [upgrade] = await store.upgrades(9, LATER)
        await store.postpone_upgrade(upgrade, LATER + HOUR)
        assert await store.upgrades(9, LATER) == []
        assert await store.upgrades(9, LATER + HOUR) == [replace(upgrade, failures=1)]
        [node] = await store.nodes(NodeQuery("alpha", (upgrade.ref,)))
        assert await store.save_upgrade(upgrade, replace(node, written_by="model"), None, ())
        assert (await store.nodes(NodeQuery("alpha", (upgrade.ref,))))[0].written_by == "model"


# records


def record_of(account: Account, text: str) -> Record:
    last = account.turns[-1].place
    key = record_key(account.session_key, len(account.chain), last, None)
    parent = account.last.id if account.last else None
    return Record(key, LATER, len(account.chain), parent, Body(text), (), 9, "extractive", through=last, seen=last)


async def test_records_form_a_chain_that_only_one_can_prolong(opened: Open) -> None:
    async with opened() as store:
        await add(store, *talk())
        account = await store.account("s1")
        assert account
        sources = await store.events(EventQuery(session_id="s1"))
        assert await store.save_record(account, record_of(account, "First."), sources)
        assert not await store.save_record(account, record_of(account, "Another first."), sources)
        then = await store.position()
        await add(store, said("More.", 9))
        grown = await store.account("s1")
        assert grown
        assert [turn.timestamp_ms for turn in grown.turns] == [START + 9 * 60_000]
        assert await store.save_record(grown, record_of(grown, "Second."), [])
        bodies = [[record.body.summary for record in await store.records("s1", at)] for at in (None, then)]
        assert bodies == [["First.", "Second."], ["First."]]
        assert await store.events(EventQuery(record=record_of(account, "").key)) == sources


async def test_a_record_of_words_that_were_forgotten_meanwhile_is_not_saved(opened: Open) -> None:
    async with opened() as store:
        await add(store, *talk(), said("The osprey plan is secret.", 2))
        account = await store.account("s1")
        assert account
        sources = await store.events(EventQuery(session_id="s1"))
        await store.forget(ForgetRequest(match="osprey"), dry_run=False)
        assert not await store.save_record(account, record_of(account, "An osprey."), sources)
        assert await store.save_record(account, record_of(account, "A cache."), sources[:2])
        assert await store.drop_broken_records(account) == 0


async def test_a_session_that_grew_while_it_was_looked_at_stays_due(opened: Open) -> None:
    async with opened() as store:
        lease = store.lease()
        assert await lease.acquire()
        assert lease.token
        await add(store, *talk())
        [account] = await store.accounts_due(LATER, 9)
        await add(store, said("More.", 9))
        await store.settle_accounts([account], lease.token)
        [account] = await store.accounts_due(LATER, 9)
        await store.settle_accounts([account], lease.token)
        assert await store.accounts_due(LATER, 9) == []


# turns


async def test_the_calls_that_changed_a_file_come_by_turn_the_latest_first(opened: Open) -> None:
    def call(text: str, minute: float, **metadata: bool) -> Event:
        return replace(said(text, minute, kind=EventType.TOOL_RESULT, **metadata), role=Role.TOOL)  # type: ignore[arg-type]

    async with opened() as store:
        await add(store, said("Fix the cutter.", 0), call("Edit: lib/cut.py\n+ a", 1), call("Write: lib/cut.py\nb", 2))
        await add(store, call("Read: lib/cut.py\nb", 3), call("Edit: lib/other.py\n+ see cut.py", 4))
        await add(store, said("Once more.", 5), call("Edit: lib/CUT.py\n+ c", 6), call("edit: cut.py", 7, failed=True))
        script = "echo on\n" * 490  # of a command of several lines up to 4,000 characters are kept
        await add(store, call(f"Bash: git add cut.py; git commit\n{script}Commit message: Cut", 8))
        turns = await store.edits("cut.py", {"edit", "write"}, Within("alpha"), 9)
        assert [[event.text.partition("\n")[0] for event in turn] for turn in turns] == [
            ["Edit: lib/CUT.py", "Bash: git add cut.py; git commit"],
            ["Edit: lib/cut.py", "Write: lib/cut.py"],
        ]
        assert await store.edits("cut.py", {"edit"}, Within("alpha", end_ms=START), 9) == []
        assert await store.edits("cut.py", {"edit"}, Within("beta"), 9) == []
        assert [len(turn) for turn in await store.edits("cut.py", {"edit", "write"}, Within(), 1)] == [1]
        assert await store.edits('cut" OR *', {"edit"}, Within(), 9) == []


async def test_a_turn_is_told_by_what_opened_it_its_commit_and_its_last_reply(opened: Open) -> None:
    commit = said("Bash: git commit\nCommit message: Cut whole words", 3, kind=EventType.TOOL_RESULT)
    async with opened() as store:
        opening, reply = said("Cut whole words.", 0), said("Words are whole now.", 4, kind=EventType.ASSISTANT_MESSAGE)
        await add(store, opening, said("I look.", 1, kind=EventType.ASSISTANT_MESSAGE), replace(commit, role=Role.TOOL))
        await add(store, reply, said("A subagent's word.", 4.5, kind=EventType.ASSISTANT_MESSAGE, agent_id="a1"))
        await add(store, said("Thanks.", 5), said("Welcome.", 6, kind=EventType.ASSISTANT_MESSAGE))
        turn = await store.turn_of(commit.key)
        told = [event.text for event in (turn.opening, turn.commit, turn.closing) if event]
        assert told == [opening.text, commit.text, reply.text]
        assert (await store.turn_of(opening.key)).closing == turn.closing
        assert (await store.turn_of(reply.key)).commit is None
        assert await store.turn_of(b"nowhere...") == TurnOutline()
        asked = [number for number, event in await store.log(0, None, 99) if event.role is Role.USER]
        closings = await store.closings(asked)
        assert [event.text for event in closings.values()] == [reply.text, "Welcome."]
