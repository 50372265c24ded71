#!/bin/sh
# Starts the server for the Claude Code plugin: the installed program if there is one, else uv, which installs this very
# clone. The program is asked for by its second name, since another package has a script of the first.
root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
if command -v mcp-memory-toc >/dev/null 2>&1; then
    exec mcp-memory-toc serve
elif command -v uv >/dev/null 2>&1; then
    exec uv tool run --quiet --from "$root" mcp-memory-toc serve
fi
echo "mcp-memory: neither mcp-memory-toc nor uv was found. Install uv, or run: pip install '$root'" >&2
exit 1
