"""Tool calls in exports of SpecStory: they read as the clients' own transcripts tell them."""

from __future__ import annotations

import pytest

from mcp_memory.clients.port import TranscriptState
from tests.clients.conftest import EXPORTED, Export, Transcript, put, told

REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. …). "
TOOLS = [
    ("Bash", "Greet\n\n`greet -v`\n\n```text\nhello\n```", "Bash: greet -v\nhello", {}),
    ("Bash", "Greet\n`greet -v`\n```\nhello\n```", "Bash: greet -v\nhello", {}),
    (
        "Bash",
        "\n```bash\ngreet\nleave\n```\n\n```text\nhi\n```\nbye\n```",
        "Bash: greet\nleave\nhi\n```\nbye",
        {"call_lines": 2},
    ),
    ("Bash", "\n`greet`\n\n```text\nExit code 2\nwho?\n```", "Bash: greet\nExit code 2\nwho?", {"failed": True}),
    (
        "Bash",
        "Commit\n\n```bash\ngit commit -m \"$(cat <<'EOF'\nMend the fence\n\nBoth gates.\nEOF\n)\"\n```\n\n"
        "```text\nok\n```",
        "Bash: git commit -m \"$(cat <<'EOF'\nMend the fence\n\nBoth gates.\nEOF\n)\"\n"
        "Commit message: Mend the fence\nBoth gates.\n\nok",
        {"call_lines": 6},
    ),
    ("Read", " `./a/b.c`\n\n```text\n   1→alpha\n   2→  beta\n```", "Read: a/b.c\nalpha\n  beta", {"files": ["a/b.c"]}),
    ("Grep", " path `./` pattern `a|`b`\n\n```text\nFound 1 file\nx\n```", "Grep: a|`b\nx", {}),
    ("Grep", " path `./src` pattern `a` include `*.c`\n\n```text\nx\n```", "Grep: a in src\nx", {}),
    ("Edit", "\n```text\nThe file /n.txt has been updated successfully.\n```", "Edit: /n.txt", {"files": ["/n.txt"]}),
    (
        "Edit",
        "\n```text\nThe file n.txt has been updated. Here's the result of running `cat -n` on it\n     4→oak\n```",
        "Edit: n.txt\noak",
        {"files": ["n.txt"]},
    ),
    (
        "Write",
        "\n```md\n# Plan\n```\nx\n```\n\n```\ny\n```\n```\n\n```text\nFile created successfully at: p.md\n```",
        "Write: p.md\n# Plan\n```\nx\n```\n\n```\ny\n```",
        {"files": ["p.md"]},
    ),
    (
        "TodoWrite",
        "**Agent task list:**\n- [X] 🔥 Dig\n- [⚡] 🌡️ Mend\n- [ ] ❄️ Paint\n",
        "TodoWrite\n[x] Dig\n[~] Mend\n[ ] Paint",
        {},
    ),
    ("Task", "Count the gates\n\n```text\nThere are two.\n```", "Task: Count the gates\nThere are two.", {}),
    (
        "WebFetch",
        f"\n```text\n{REFUSED}STOP what you are doing.\n```",
        "WebFetch\nRefused by the user.",
        {"failed": True, "refused": True},
    ),
    (
        "ExitPlanMode",
        "\n```text\nUser has approved your plan.\n\n## Approved Plan:\n# Mend both\n\nFirst the north.\n```",
        "ExitPlanMode: Mend both\n# Mend both\n\nFirst the north.",
        {},
    ),
    (
        "AskUserQuestion",
        "**Which gate?**\n\nOptions:\n- **North** - The old one\n- **South, small**\n\n"
        "**Which tools?** _(select multiple)_\n\n"
        "Options:\n- **Saw** - For oak\n- **Hammer**\n- **Rope**\n\n\n**Answer:** South, small, Saw, Rope",
        "AskUserQuestion: Which gate?\nQuestion: Which gate?\nChosen: South, small\nNot chosen: North\n"
        "Question: Which tools?\nChosen: Saw — For oak; Rope\nNot chosen: Hammer",
        {},
    ),
    (
        "AskUserQuestion",
        "**Which gate?**\n\nOptions:\n- **North**\n\n\n**Answer:** neither, leave them",
        "AskUserQuestion: Which gate?\nQuestion: Which gate?\nChosen: neither, leave them\nNot chosen: North",
        {},
    ),
    ("mcp__gate__count", "\n```text\n2\n```", "gate.count\n2", {}),
    ("Skill", "\n**Input:**\n\n- skill: `mend`\n", "Skill: mend\n**Input:**\n- skill: `mend`", {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "body", "text", "facts"), TOOLS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_call_reads_as_the_clients_own_transcript_tells_it(
    export: Transcript, name: str, body: str, text: str, facts: dict[str, object]
) -> None:
    put(export, str(Export().user("Mend it.").tool(name, body).agent("Done.")))
    _, call, last = export.events()
    assert (call.role.value, call.text, last.text) == ("tool", text, "Done.")
    about = {key: value for key, value in call.metadata.items() if key not in ("via", "cwd")}
    assert about == {"tool": name, **facts}


def test_edits_are_told_from_the_directory_that_the_session_ran_in_on_whatever_machine(export: Transcript) -> None:
    story = Export().user("Mend it.").tool("Read", " `./src/gate.c`\n\n```text\n     1→int a;\n```")
    for path in ("/Users/ada/farm/src/gate.c", "/Users/ada/farm/README", "/Users/ada/notes/x"):
        story.tool("Edit", f"\n```text\nThe file {path} has been updated successfully.\n```")
    heads = [text for role, text in told(export, story.agent("Done.")) if text.startswith("Edit")]
    assert heads == ["Edit: src/gate.c", "Edit: README", "Edit: /Users/ada/notes/x"]


def test_what_was_typed_while_refusing_a_call_is_the_users(export: Transcript) -> None:
    body = f"\n`rm -r gate`\n\n```text\n{REFUSED}To tell you how to proceed, the user said:\nKeep the gate!\n```"
    put(export, str(Export().user("Tidy up.").tool("Bash", body).agent("I keep it.")))
    _, call, words, _ = export.events()
    assert (call.text, call.metadata["refused"]) == ("Bash: rm -r gate\nRefused by the user.", True)
    assert (words.role.value, words.text, words.metadata["refuses"]) == ("user", "Keep the gate!", "Bash")
    assert words.source_key == call.source_key.replace("tool:", "refusal:")


def test_a_plan_that_is_carried_out_in_a_context_of_its_own_was_not_refused(export: Transcript) -> None:
    body = f"\n```text\n{REFUSED}STOP what you are doing.\n```"
    story = Export().user("Plan it.").tool("ExitPlanMode", body).user("[Request interrupted by user for tool use]")
    put(export, str(story.user("Implement the following plan:\n\n# Mend both\n\nNorth first.").agent("Done.")))
    _, plan, stopped, request, _ = export.events()
    assert plan.text == "ExitPlanMode: Mend both\n# Mend both\n\nNorth first."
    assert "refused" not in plan.metadata
    assert (stopped.event_type.value, stopped.metadata["is_interrupt"]) == ("assistant_stop", True)
    assert request.text.startswith("Implement the following plan:")


def test_a_list_of_tasks_tells_their_states_in_the_order_they_take(export: Transcript) -> None:
    story = Export().user("Mend it.").tool("TaskCreate", "By hand.\n\n```text\nTask #1 created successfully: Dig\n```")
    for _ in range(2):
        story.tool("TaskUpdate", "\n```text\nUpdated task #1 status\n```")
    story.tool("TaskUpdate", "\n```text\nUpdated task #1 owner\n```")
    calls = put(export, str(story.agent("Done."))).events()[1:-1]
    assert [(call.text, call.metadata["task"]) for call in calls] == [
        ("TaskCreate: Dig\n[ ] Dig", "1"),
        ("TaskUpdate: #1\n[~] #1", "1"),
        ("TaskUpdate: #1\n[x] #1", "1"),
        ("TaskUpdate: #1\n#1", "1"),
    ]


@pytest.mark.parametrize(
    ("name", "kind", "summary", "body", "text", "files"),
    [
        (
            *("exec_command", "shell", "Tool use: **exec_command** `greet`"),
            "```\nWall time: 0.1 seconds\nProcess exited with code 3\nOutput:\nwho?\n```",
            "Bash: greet\nExit code 3\nwho?",
            None,
        ),
        (
            *("apply_patch", "write", ""),
            "**Add: `a.md`**\n\n```diff\n+oak\n```\n\n**Update: `b.md`**\n\n```diff\n@@\n-ash\n+elm\n```\n",
            "apply_patch: a.md, b.md\n+ oak\n- ash\n+ elm",
            ["a.md", "b.md"],
        ),
        (
            *("update_plan", "task", "", "**Agent task list:**\n- [X] Dig\n- [ ] Mend\n"),
            "TodoWrite\n[x] Dig\n[ ] Mend",
            None,
        ),
        (
            *("search_replace", "write", "Tool use: **search_replace** • Edit file: src/a.c"),
            "\n**Chunk 1**\n\n```diff\n@@ -1 +1 @@\n-ash\n+elm\n```\n",
            "search_replace: src/a.c\n**Chunk 1**\n- ash\n+ elm",
            ["src/a.c"],
        ),
        (
            *("read_file", "read", "Tool use: **read_file** `./a.c`", "\n```c\nint a;\n```\n"),
            "read_file: ./a.c\nint a;",
            ["a.c"],
        ),
        (
            *("run_shell_command", "shell", ""),
            "Directory: `src`\n\n```bash\nls\n```\n\nResult:\n```text\na.c\nb.c\n```",
            "Bash: ls\na.c\nb.c",
            None,
        ),
        ("find", "search", "Searched everything", "", "find: Searched everything", None),
    ],
)  # fmt: skip
def test_calls_of_other_clients_read_alike(
    export: Transcript, name: str, kind: str, summary: str, body: str, text: str, files: list[str] | None
) -> None:
    story = str(Export().user("Look.").tool(name, body, kind, summary).agent("Done."))
    put(export, story.replace("Claude Code Session", "Codex CLI Session"))
    _, call, _ = export.events()
    assert (call.client, call.text, call.metadata.get("files")) == ("codex", text, files)


def test_a_call_without_a_name_in_its_tag_is_read(export: Transcript) -> None:
    for tags in (("<tool-use>\n<details>\n", "\n</details>\n</tool-use>"), ("<details>\n", "\n</details>")):
        summary = "<summary>Tool use: **grep** • Searched: oak</summary>"
        block = f"{tags[0]}{summary}\n\n```\n&#96;x&#96; &amp; y\n```\n{tags[1]}"
        put(export, f"_**User**_\n\nLook.\n\n---\n\n_**Assistant**_\n\n{block}\n\nThere.\n")
        export.state = TranscriptState()
        assert [event.text for event in export.events()] == ["Look.", "grep: oak\n`x` & y", "There."]


def test_a_call_keeps_its_name_whatever_comes_after_it(export: Transcript) -> None:
    done = "\n```text\nThe file /Users/ada/farm/src/gate.c has been updated successfully.\n```"
    refused = f"\n```text\n{REFUSED}STOP what you are doing.\n```"
    story = Export().user("Mend it.").tool("Edit", done).tool("ExitPlanMode", refused)
    story.tool("TaskUpdate", "\n```text\nUpdated task #1 status\n```").tool("Edit", "")
    first = [event.source_key for event in put(export, str(story)).events()]
    assert len(first) == 4, "an edit that is not yet made is not told"
    story.user("Implement the following plan:\n\n# Mend").tool("Read", " `./src/gate.c`\n\n```text\n1→int a;\n```")
    assert [event.source_key for event in put(export, str(story)).events()][:4] == first


def test_calls_without_tags_end_with_their_turn(export: Transcript) -> None:
    parts = (
        "_**User**_\n\nMend it.\n\n---",
        "_**Agent (gpt-x)**_\n\nTool use: **Bash** Greet them\n\n`greet`\n\nError:\n\n```\nwho?\n---\n```",
        "_**Agent (gpt-x)**_\n\n**Agent task list:**\n- [X] 🔥 Dig\n- [ ] 🔥 Mend",
        "_**Agent (gpt-x)**_\n\nTool use: **Read** `/a.c`\n\nResult:\n\n```\n1→int a;\n```",
        "_**Agent (gpt-x)**_\n\nTool use: **Task** Count the gates\n\n---",
        "_**Agent (gpt-x)**_\n\nTool use: **read_file**\n\nRead file: src/b.c\n\n---\n\nTool use: **grep**\n\n"
        '<details>\n<summary>Grep for "oak" • 2 matches</summary>\n\n| x |\n</details>\n\n---\n\nDone.',
    )
    story = put(export, f"<!-- Claude Code Session {EXPORTED} -->\n\n" + "\n\n".join(parts))
    _, *calls, last = story.events()
    assert [call.text for call in calls] == [
        "Bash: greet\nwho?\n---",
        "TodoWrite\n[x] Dig\n[ ] Mend",
        "Read: /a.c\nint a;",
        "Task: Count the gates",
        "read_file: src/b.c",
        'grep: Grep for "oak" • 2 matches\n| x |',
    ]
    assert [call.metadata.get("failed", False) for call in calls] == [True] + [False] * 5
    assert [call.metadata.get("files") for call in calls] == [None, None, ["/a.c"], None, ["src/b.c"], None]
    assert last.text == "Done."


def test_a_call_that_still_runs_is_told_when_it_is_done(export: Transcript) -> None:
    assert told(export, Export().user("Go.").tool("Bash", "\n`greet`")) == [("user", "Go.")]
    done = Export().user("Go.").tool("Bash", "\n`greet`\n\n```text\nhello\n```")
    assert told(export, done)[1:] == [("tool", "Bash: greet\nhello")]
