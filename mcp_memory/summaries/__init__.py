"""Summarizers behind the Summarizer port."""
