"""`python -m mcp_memory` is the same program as the `mcp-memory` console script."""

import sys

from mcp_memory.surfaces.cli import main

if __name__ == "__main__":
    sys.exit(main())
