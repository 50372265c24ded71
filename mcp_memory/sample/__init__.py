"""An invented history of a few weeks, for the first look and for tests."""
