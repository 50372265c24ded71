"""The capture hook: standard library only and Python 3.9, because clients run it with whatever they find."""
