"""How each client's settings files are read and edited to register the hook and the MCP server, and put back again."""
