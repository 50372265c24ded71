"""What people and agents meet: the MCP server and the command line."""
