"""The viewer: pages for people, on loopback, behind the guard of the HTTP server."""
