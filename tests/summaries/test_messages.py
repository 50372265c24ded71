"""Code, logs and tables that a user pastes are not taken for the user's own words."""

from __future__ import annotations

import pytest

from mcp_memory.summaries.messages import own_words, pasted_in

from .conversations import summary

GO = """type Limiter struct {
\tmu     sync.Mutex
\ttokens int
}

// Take removes a token and reports whether there was one.
func (l *Limiter) Take() bool {
\tl.mu.Lock()
\tdefer l.mu.Unlock()
\tif l.tokens == 0 {
\t\treturn false
\t}
\tl.tokens--
\treturn true
}"""
PYTHON = """import asyncio

class Pool:
    # Hands out connections in turn.
    def take(self):
        self.at += 1
        return self.free[self.at % len(self.free)]
"""
YAML = """apiVersion: v1
kind: Service
metadata:
  name: basket
  labels:
    tier: web
spec:
  ports:
    - port: 80"""
TABLE = """NAME                 READY   STATUS    RESTARTS   AGE
basket-5d4c9-x2v1q   1/1     Running   0          3d
basket-5d4c9-z81mm   0/1     Pending   0          4m"""
RUSTC = """error[E0382]: use of moved value: `job`
  --> src/queue.rs:31:20
   |
29 |     let job = queue.next()?;
   |         --- move occurs because `job` has type `Job`
31 |         retry(job);
   |               ^^^ value used here after move"""


@pytest.mark.parametrize("pasted", [GO, PYTHON, YAML, TABLE, RUSTC])
@pytest.mark.parametrize("asked", ["the second caller starves under load, why is that?"])
def test_only_what_stands_beside_it_is_the_users_own(pasted: str, asked: str) -> None:
    assert own_words(f"{pasted}\n\n{asked}").split() == asked.split()
    assert own_words(f"{asked}\n\n{pasted}").split() == asked.split()
    assert len(own_words(f"{asked}\n\n{pasted}")) == len(f"{asked}\n\n{pasted}")


@pytest.mark.parametrize(
    "typed",
    [
        "npm install fails on the runner\nit worked on Monday",
        "Error handling is missing in the importer\nadd it please",
        "Fix these:\n- the header is cut off;\n- the footer overlaps;\n- the page number is gone;",
        "• the header is cut off\n• the footer overlaps",
        "## Task\nimport the bank statements\n\n## Limits\n- no new tables\n* keep the order",
        "Two blanks after a stop.  As typists do.  And one more.\nThat is no table.",
        "task: move the mails to a queue\nfile: mails.py\ngoal: no mail is lost",
        "if it fails:\n\nfor the next release:\nuse the old one",
        "<task>\nmove the mails to a queue\n</task>",
    ],
)
def test_what_a_person_typed_stays(typed: str) -> None:
    assert not pasted_in(typed)
    assert own_words(typed) == typed


def test_of_a_long_message_the_head_and_the_tail_are_looked_at() -> None:
    long = f"{GO}\n" * 60
    asked = "the second caller starves under load, why is that?"
    assert asked in own_words(f"{long}\n{asked}")
    assert {run.log for run in pasted_in(long)} == {False}


def test_a_question_below_a_pasted_file_names_the_matter() -> None:
    told = summary(
        ("user", f"{GO}\n\nthe second caller starves under load, how can that happen?"),
        ("assistant", "`Take` never waits, so a caller that comes late finds no token."),
    )
    assert told.title == "Second caller starves under load"
    assert told.bullets[0].shown == "Asked: the second caller starves under load, how can that happen?"
    assert not [one.text for one in told.bullets if "{" in one.text or "func" in one.text]


def test_what_is_said_below_a_trace_is_kept_and_the_error_names_the_matter() -> None:
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/srv/app/labels.py", line 12, in print_label\n'
        "    font = load(name)\n"
        "OSError: cannot open font library 'libfont-2': no such file\n\n"
        "happens only in the label container, the shop one is fine"
    )
    told = summary(
        ("user", trace),
        (
            "assistant",
            "The shop image installs `libfont-2`, the label image doesn't. Labels moved to the label container last "
            "week, so the label container now needs the font libraries too.",
        ),
        ("tool", "Edit: /docker/label.Dockerfile\nok"),
        ("assistant", "The label image now installs the font, and printing labels works."),
    )
    texts = [bullet.shown for bullet in told.bullets]
    assert "Error: OSError: cannot open font library 'libfont-2': no such file" in texts
    assert "User: happens only in the label container, the shop one is fine" in texts
    assert told.title == "OSError: cannot open font library libfont-2"


def test_what_a_compiler_draws_is_neither_title_nor_bullet() -> None:
    told = summary(
        ("user", f"{RUSTC}\n\nthe queue should hand out references"), ("assistant", "`retry` takes the job by value.")
    )
    texts = [told.title, *(bullet.shown for bullet in told.bullets)]
    assert not [text for text in texts if "^" in text or "|" in text or "-->" in text]
    assert "Error: error[E0382]: use of moved value: `job`" in texts
