"""The write side, in the order of flow: ingest, segment, summarize, rollup, and the loop that runs them."""
