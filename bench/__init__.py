"""Benchmarks: what memory costs, as ratios to a baseline measured in the same run."""
