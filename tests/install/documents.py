"""Settings files as people write them, and what is registered in them."""

from __future__ import annotations

from pathlib import Path

from mcp_memory.clients import CLIENTS
from mcp_memory.clients.port import USER, Folders
from mcp_memory.install.catalog import Launch, WantedEntries, wanted_entries

LAUNCH = Launch("/opt/py/bin/python", "/opt/memory/hooks/capture.py", ("/opt/py/bin/mcp-memory", "serve"), "/data/m m")
MOVED = Launch("/new/bin/python", "/new/memory/hooks/capture.py", ("/new/bin/python", "-m", "mcp_memory", "serve"))


def wanted(client: str = "gemini", launch: Launch = LAUNCH) -> WantedEntries:
    """All that the client's JSON files should hold, as if it were one file."""
    parts = list(wanted_entries(CLIENTS[client], USER, Folders(Path("/home/dev")), launch).values())
    hooks = next(part for part in parts if part.hooks)
    server = next(part.server for part in parts if part.server)
    return WantedEntries(hooks.hooks, server, hooks.grouped, hooks.version)


OTHER = '{"hooks": [{"type": "command", "command": "true other-hook"}]}'

#: Registering and withdrawing gives back exactly these.
EXACT = {
    "one line": '{"a": 1, "mcpServers": {"other": {"command": "false"}}}',
    "minified": '{"a":1,"b":[1,2],"hooks":{"Stop":[' + OTHER + "]}}",
    "padded braces": '{ "a": 1 }',
    "two spaces": '{\n  "a": 1,\n  "hooks": {\n    "SessionStart": [\n      ' + OTHER + "\n    ]\n  }\n}\n",
    "tabs": '{\n\t"a": {\n\t\t"b": []\n\t}\n}\n\n',
    "carriage returns": '{\r\n    "a": 1,\r\n    "mcpServers": {\r\n        "x": {}\r\n    }\r\n}\r\n',
    "no newline at the end": '{\n  "a": 1\n}',
    "comments": '// top\n{\n  // first\n  "a": 1, // one\n  /* hooks\n     of others */\n  "hooks": {"AfterAgent": ['
    + OTHER
    + "]} // end\n  // last\n}\n// bottom\n",
    "trailing commas": '{\n  "a": 1,\n  "hooks": {\n    "AfterAgent": [' + OTHER + ",],\n  },\n}\n",
    "comment after the last value": '{\n  "a": [1, 2] /* two */ // numbers\n}',
    "mixed lines": '{ "env": {"TEAM": "kept \\u00e9"},\n\n    "hooks": {"Stop": [' + OTHER + "]} }",
    "line comment before the brace": '{"a": 1 // one\n}',
    "comment after the document": '{"ui": {"hideBanner": true}} // kept',
    "escapes and signs": '{"k\\u00e9y \\" // no comment": "/* text */ \\\\", "ü": "\U0001f600"}',
    "an empty object of the user's": '{\n  "hooks": {},\n  "mcpServers": {}\n}\n',
}

#: These had nothing in them, so only their meaning can be given back.
EMPTY = {
    "nothing": "",
    "white space": " \n\n",
    "comments only": "// mine\n/* too */",
    "an empty object": "{}",
    "a spaced empty object": "{ \n }\n",
    "an empty object with a comment": "{\n  // nothing yet\n}\n",
    "an empty object with a block comment": "{ /* nothing yet */ }",
}

BROKEN = {
    "cut off": '{"a": 1',
    "missing comma": '{"a": 1 "b": 2}',
    "single quotes": "{'a': 1}",
    "two values": "{} {}",
    "bad escape": '{"a": "\\q"}',
    "bad number": '{"a": 01}',
    "open comment": '{"a": 1} /* oops',
    "a list": "[]",
    "hooks of the wrong shape": '{"hooks": "none"}',
    "servers of the wrong shape": '{"mcpServers": []}',
    "an event of the wrong shape": '{"hooks": {"SessionStart": {}}}',
}

#: Settings in TOML as people write them: registering and withdrawing gives back exactly these.
TOML = {
    "empty": "",
    "a comment": "# mine\n",
    "tables": '# top\nmodel = "x"   # after\n\n[features]\nhooks = true\n\n[mcp_servers.other] # not ours\nurl = "x"\n',
    "blank lines at the end": "[a]\nb = 1\n\n\n",
    "carriage returns": '[a]\r\nb = "c"\r\n',
    "text of several lines": 'a = """\n[mcp_servers.memory]\ncommand = "no"\n"""\n',
    "lists of several lines": "b = [\n  1, # [x]\n  2,\n]\nc = { d = ']' }\n'q\"' = '#'\n",
    "arrays of tables": "[[hooks]]\na = 1\n[[hooks]]\na = 2\n",
    "odd spacing": "  a   =  1   # x\n\n\n[ b ]  # y\n  c.d = 2\n\t[ b.e ]\nf = {g=1,h = [1,2 , 3]}\n\n# end\n",
    "carriage returns and blank lines": "# a\r\n\r\nx = 1\r\n\r\n[mcp_servers.other]\r\nurl = 'x'\r\n\r\n",
    "dotted keys": "mcp_servers.other.command = 'x'\n[t]\ny.z.'w w' = 1\n",
    "inline tables": "[mcp_servers]\nother = { command = 'x', env = { A = '1' } } # mine\n\n[t]\n",
    "a table of servers between others": "[mcp_servers.a]\nurl = 'x'\n\n[t]\nb = 1\n\n[mcp_servers.c]\nurl = 'z'\n",
    "arrays of tables with tables inside": "[[x]]\n[x.y]\na = 1\n\n[[x]]\n[x.y]\na = 2\n\n\n",
    "a directive at the top": "#:schema https://example.org/s.json\n\nmodel = 'x'\n",
    "dotted names": '[projects."/home/dev/a.b"]\ntrust_level = "trusted"\nx.y = 1979-05-27\n',
}
