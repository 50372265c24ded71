"""Summaries written by a language model: asked for sparingly, checked, counted, and never waited for."""
