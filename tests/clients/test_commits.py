"""What commands record: messages of commits, titles of pull requests and issues."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.clients.claude_tools import headline
from mcp_memory.clients.commits import recorded


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git commit -m 'Mend the fence'", "Commit message: Mend the fence"),
        ('git commit -m "Mend it" -m "It fell.\n\nTwice."', "Commit message: Mend it\nIt fell.\nTwice."),
        ("cd farm && git add -A && git commit -am 'Mend' && git push", "Commit message: Mend"),
        ("git commit --message='Mend it' --no-verify", "Commit message: Mend it"),
        ("git commit --message 'Mend it'; git log", "Commit message: Mend it"),
        ("git -C farm -c user.name=ada commit -qmMend -- fence.py", "Commit message: Mend"),
        ("GIT_AUTHOR_NAME=ada git commit \\\n  -m 'One' \\\n  -m 'Two'", "Commit message: One\nTwo"),
        ("git commit -m $'Mend\\n\\nIt\\'s old.'", "Commit message: Mend\nIt's old."),
        ("git commit -m @'\nMend it\n\nIt fell.\n'@", "Commit message: Mend it\nIt fell."),
        ("git commit -m Mend # -m 'no more'", "Commit message: Mend"),
        ("(git commit -m Mend) || exit 1", "Commit message: Mend"),
        ("if git commit -m Mend 2>&1 | tail -1; then :; fi", "Commit message: Mend"),
        ('git commit -m "Say \\"hi\\" to `ls` and $HOME"', 'Commit message: Say "hi" to `ls` and $HOME'),
        ("git commit -m \"Mend at $(date '+%F')\"", "Commit message: Mend at $(date '+%F')"),
        ("git commit -m 'First' && git commit -m 'Second'", "Commit message: First\nCommit message: Second"),
    ],
)
def test_the_message_of_a_commit_is_found(command: str, expected: str) -> None:
    assert recorded(command) == expected


BODY = 'Mend the fence\'s "gate" (east)\n\n- It fell.\n- `ls` shows it)\n'
FOUND = 'Commit message: Mend the fence\'s "gate" (east)\n- It fell.\n- `ls` shows it)'


@pytest.mark.parametrize(
    "command",
    [
        f"git commit -F - <<'EOF'\n{BODY}EOF\n",
        f"git commit -q --file=- <<'EOF' && git push\n{BODY}EOF",
        f"git add . && git commit -m \"$(cat <<'EOF'\n{BODY}EOF\n)\" && git status",
        f"git commit -m \"$(cat <<-'END'\n{BODY}\tEND\n)\"",
        f"git commit -m \"$(cat <<'EOF'\n{BODY}EOF)\"",
        f"cat <<'EOF' | git commit -F -\n{BODY}EOF",
        'git commit -F - <<< "{}"'.format(BODY.replace('"', '\\"')),
        f"cat > /tmp/message <<'EOF'\n{BODY}EOF\ngit commit -F /tmp/message",
        "git commit -F - <<EOF\n{}EOF".format(BODY.replace("`", "\\`")),
    ],
)
def test_a_message_in_a_heredoc_is_found(command: str) -> None:
    assert recorded(command) == FOUND


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("gh pr create --title 'Mend the fence' --body 'It fell.'", "Pull request: Mend the fence\nIt fell."),
        ("gh pr create -t Mend -b \"$(cat <<'EOF'\n## Why\nIt fell.\nEOF\n)\"", "Pull request: Mend\n## Why\nIt fell."),
        ("gh pr create --title=Mend --body-file - <<EOF\nIt fell.\nEOF", "Pull request: Mend\nIt fell."),
        ("gh pr edit 12 --title 'Mend both gates'", "Pull request: Mend both gates"),
        ("gh issue create --title 'The gate squeaks' --label bug", "Issue: The gate squeaks"),
        ("gh issue close 7", "Issue closed: #7"),
        ("gh issue close https://example.org/farm/issues/7 -c 'Oiled.'", "Issue closed: #7\nOiled."),
    ],
)
def test_titles_of_pull_requests_and_issues_are_found(command: str, expected: str) -> None:
    assert recorded(command) == expected


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "git log --grep commit -m 3",
        "git commit --amend --no-edit",
        "git commit",
        "git commit -F other.txt",
        "git stash push -m commit",
        "echo 'git commit -m no'",
        "cat > run.sh <<'EOF'\ngit commit -m no\nEOF",
        "gh pr create --fill",
        "gh pr view 7 --title",
        "gh issue close",
        "gh pr",
        "git commit -m ''",
        "git commit -m",
        "git commit -m 'Co-Authored-By: Ada <ada@example.org>'",
    ],
)
def test_a_command_that_records_nothing_of_its_own_tells_nothing(command: str) -> None:
    assert recorded(command) == ""


def test_what_tools_add_to_a_message_is_left_out() -> None:
    added = (
        "🤖 Generated with [Some Agent](https://example.org)\n\nCo-Authored-By: Agent <a@example.org>\nChange-Id: I12"
    )
    assert recorded(f"git commit -m 'Mend\n\nFixes: the gate\n\n{added}'") == "Commit message: Mend\nFixes: the gate"


def test_a_long_body_is_cut() -> None:
    told = recorded(f"git commit -m Mend -m '{'It fell. ' * 500}'")
    assert told.startswith("Commit message: Mend\nIt fell.")
    assert told.endswith("…")
    assert len(told) == len("Commit message: Mend\n") + 1_000


@pytest.mark.parametrize(
    "tail",
    ["$(" * 9_000, "<<A " * 9_000, '"' * 40_001, "`" * 4_001, "(\n" * 9_000, "\\" * 4_001, "$'\\" * 9_000, "$(cat <<'"],
)  # fmt: skip
def test_a_command_that_never_ends_well_is_no_trouble(tail: str) -> None:
    assert recorded(f"git commit -m Mend {tail}").startswith("Commit message: Mend")


@given(st.text(alphabet="git commit-mF\"'`$()<>|&;#\\\nEOF ", max_size=80))
def test_no_command_is_too_odd(tail: str) -> None:
    assert recorded(f"git commit -m Mend\n{tail}").startswith("Commit message: Mend")


def test_the_message_stands_after_the_line_that_names_the_call() -> None:
    line = headline("Bash", {"command": "git add . &&\ngit commit -m Mend"}, "")
    assert line == "Bash: git add . &&\nCommit message: Mend\n"
