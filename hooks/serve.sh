#!/bin/sh
# Starts the server for the Claude Code plugin: an installed mcp-memory if there is one, else uv, which fetches what is
# needed by itself.
root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
if command -v mcp-memory >/dev/null 2>&1; then
    exec mcp-memory serve
elif command -v uv >/dev/null 2>&1; then
    exec uv tool run --quiet --from "$root" mcp-memory serve
fi
echo "mcp-memory: neither mcp-memory nor uv was found. Run 'pip install mcp-memory', or install uv." >&2
exit 1
