"""Taking secrets out of texts before they reach the disk, for the hook and for every importer.

`rules` is the table of rules, `names` and `values` judge names and values, `assignments` reads what follows a name,
`structures` what its place tells, and `engine` puts them to work.
"""

from mcp_memory.capture.redaction.engine import redact, redact_json
from mcp_memory.capture.redaction.values import Clean

__all__ = ["Clean", "redact", "redact_json"]
