"""The engine for what one computer outgrows: a memory in PostgreSQL."""
