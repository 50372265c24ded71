"""Keywords: what one would search for, each thing once."""

from __future__ import annotations

from mcp_memory.summaries.extractive import summarize_segment

from .conversations import conversation


def test_keywords_are_search_terms_not_stop_words_ids_or_home_paths() -> None:
    events = conversation(
        ("user", "The refreshToken call in src/auth/session.ts fails, see /home/anna/shop/logs/app.store"),
        ("assistant", "Commit 9f8e7d6c5b4a broke refreshToken for 123e4567-e89b-12d3-a456-426614174000."),
        ("tool", "Edit: /home/anna/shop/src/auth/session.ts\nok"),
    )
    keywords = summarize_segment(events, []).keywords
    assert {"refreshToken", "session.ts"} <= set(keywords)
    assert not any("anna" in word or "home" in word or "9f8e" in word or "e4567" in word for word in keywords)
    assert not {"the", "in", "for", "see"} & set(keywords)
    assert len(keywords) <= 10


def test_words_of_comparison_and_verbs_are_no_keywords() -> None:
    said = "The older exporter kept ledgers, and the newest importer is faster. An older exporter kept ledgers open."
    again = "Open ledgers are resolved by the older exporter; nothing was faster, and the newest importer kept them."
    found = summarize_segment(conversation(("user", said), ("assistant", again)), []).keywords
    assert {"exporter", "importer"} <= set(found)
    assert not {"older", "newest", "faster", "open", "kept", "resolved"} & set(found)
    assert not any("kept" in word or "older" in word.split()[1:] for word in found)


def test_an_acronym_and_its_plural_are_one_keyword() -> None:
    said = "Both GPUs wait for the loader, and each GPU idles. More GPUs would idle as the first GPU does."
    found = summarize_segment(conversation(("user", said)), []).keywords
    assert len({"GPU", "GPUs"} & set(found)) == 1


def test_flags_of_commands_and_endings_of_globs_are_no_keywords() -> None:
    ran = "Bash: grep -rn --include=*.toml 'os\\.Getenv' cfg/app\ncfg/app/load.go"
    said = "I searched all `*.toml` files and read/write calls; the `--dry-run` flag of the loader is ignored."
    found = summarize_segment(conversation(("tool", ran), ("assistant", said)), []).keywords
    assert "--dry-run" in found
    assert not {"-rn", "--include", ".toml", ".Getenv", "read/write"} & set(found)


def test_an_edited_file_is_a_keyword_before_those_that_were_read() -> None:
    read = [("tool", f"Read: /src/{name}.py\nimport os") for name in "abcdefghijkl"]
    said = [("assistant", f"I read {name}.py and {name}_helper.py.") for name in "abcdefghijkl"]
    events = conversation(*read, *said, ("tool", "Edit: /src/zebra.py\nok"))
    assert "zebra.py" in summarize_segment(events, []).keywords


def test_a_name_in_han_characters_is_one_keyword_with_all_its_characters() -> None:
    said = "明日は佐々木の会議がある。昼は𠮷野家で食べた。"
    assert {"佐々木", "𠮷野家"} <= set(summarize_segment(conversation(("user", said)), []).keywords)


def test_marks_of_redaction_are_no_keywords() -> None:
    said = "The exporter asks for [redacted:password] twice, and the exporter keeps [redacted:private] open."
    ran = "Bash: export TOKEN=[redacted:github-token]\n[redacted:github-token] was used by the exporter"
    found = summarize_segment(conversation(("user", said), ("tool", ran)), []).keywords
    assert "exporter" in found
    assert not [word for word in found if "redacted" in word or "github-token" in word]


def test_options_in_what_a_tool_gave_back_are_no_keywords_of_the_day() -> None:
    given = "error: unknown option (--frobnicate-index), see [--purge-cache] or '--skip-verify'\nexit code 2"
    events = conversation(
        ("user", "Please run the migration of the ledger."),
        ("tool", f"Bash: migrate --dry-ledger\n{given}"),
        ("tool", given),
        ("user", f"It says\n```\n{given}\n```\nWhat about the `--keep-going` option of the ledger?"),
    )
    found = " ".join(summarize_segment(events, []).keywords)
    assert not any(option in found for option in ("frobnicate", "purge-cache", "skip-verify", "dry-ledger"))
    assert "--keep-going" in found
