"""Long-term memory for coding agents. Kept free of imports: the capture hook loads this package on every event."""

__version__ = "0.1.0"
