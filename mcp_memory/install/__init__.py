"""Registers the capture hook and the server in the settings of clients, and takes all of it back."""
