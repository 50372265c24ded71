"""Code, logs and tables that a user pastes are not taken for the user's own words."""

from __future__ import annotations

import pytest

from mcp_memory.summaries.messages import own_words, pasted_in, plain, spoken

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
        "the price is $ 5\nper month",
    ],
)
def test_what_a_person_typed_stays(typed: str) -> None:
    assert not pasted_in(typed)
    assert own_words(typed) == typed


def test_what_is_said_below_a_command_is_the_users_own() -> None:
    assert own_words("$ make flash\nthat hangs since Monday, please have a look").split()[:2] == ["that", "hangs"]


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
    assert "econd caller starves under load" in told.title
    assert "he second caller starves under load, how can that happen?" in told.bullets[0].shown
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
    assert "Reported: OSError: cannot open font library 'libfont-2': no such file" in texts
    assert any("appens only in the label container, the shop one is fine" in text for text in texts)
    assert not [text for text in texts if "Traceback" in text or "labels.py" in text]


def test_what_a_compiler_draws_is_neither_title_nor_bullet() -> None:
    told = summary(
        ("user", f"{RUSTC}\n\nthe queue should hand out references"), ("assistant", "`retry` takes the job by value.")
    )
    texts = [told.title, *(bullet.shown for bullet in told.bullets)]
    assert not [text for text in texts if "^" in text or "|" in text or "-->" in text]
    assert "Reported: error[E0382]: use of moved value: `job`" in texts


PASTES = {
    "a difference": "diff --git a/cart.py b/cart.py\n--- a/cart.py\n+++ b/cart.py\n@@ -1,2 +1,2 @@\n-sum = 1\n+sum = 2",
    "numbered code": "  41→def total(items):\n  42→    return sum(items)\n  43→",
    "a prompt": "$ make flash\nOpen On-Chip Debugger 0.12\nError: init mode failed",
    "a log": "2026-04-01 10:00:01 INFO [worker-1] poll depth=3\n2026-04-01 10:00:02 INFO [worker-1] poll depth=4",
    "a table": TABLE,
    "a service": YAML,
    "a file": GO,
    "a module": PYTHON,
    "a stack": "goroutine 12 [running]:\nmain.(*Pool).Take(0xc000010000)\n\t/src/pool.go:31 +0x1d",
    "a fenced file": f"```go\n{GO}\n```",
}


@pytest.mark.parametrize("name", PASTES)
@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ("the basket shows yesterday's prices, please find out why", "yesterday's prices"),
        ("der Warenkorb zeigt die Preise von gestern, woran liegt das?", "Preise von gestern"),
        ("为什么购物车显示昨天的价格？", "购物车显示昨天的价格"),
    ],
)
def test_what_was_pasted_is_neither_title_nor_bullet_and_what_was_asked_is(name: str, asked: str, kept: str) -> None:
    pasted = PASTES[name]
    for said in (f"{asked}\n\n{pasted}", f"{pasted}\n\n{asked}"):
        told = summary(("user", said), ("assistant", "The prices are cached for a day."))
        texts = [told.title, *(bullet.text for bullet in told.bullets)]
        assert any(kept in text for text in texts)
        code = [line.strip() for line in pasted.splitlines() if len(line.strip()) > 12 and "rror" not in line]
        assert not [line for line in code for text in texts if line in text]


@pytest.mark.parametrize(
    ("message", "own"),
    [
        ("<command-name>/review</command-name>\n<command-args>PR 31 please</command-args>", "PR 31 please"),
        ("<system-reminder>Be brief.</system-reminder>\nsort the menu", "sort the menu"),
        ("[Image #1]\nthe button is cut off", "the button is cut off"),
        ("Caveat: The messages below were made by the client", ""),
        ("<bash-stdout>12 passed</bash-stdout>", ""),
        ("plain words < 3 and > 2", "plain words < 3 and > 2"),
    ],
)
def test_what_a_client_writes_into_a_message_is_not_the_users(message: str, own: str) -> None:
    text = spoken(message)
    assert text.split() == own.split()
    assert len(text) == len(message)


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("**Sort** the _menu_ by [name](https://example.org)", "Sort the menu by name"),
        ("see `<details>` and `https://example.org/a/b`", "see `details` and `example.org`"),
        ("edit /home/ada/shop/cart.py next", "edit shop/cart.py next"),
        ("✅ all 12 pass", "all 12 pass"),
        ("| Port | 5432 |", "Port"),
        ("two\n lines", "two lines"),
    ],
)
def test_a_stretch_of_a_message_is_one_clean_line(raw: str, clean: str) -> None:
    assert plain(raw) == clean
