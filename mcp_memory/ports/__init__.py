"""The interfaces between the layers; their docstrings are contracts that every adapter must keep."""
