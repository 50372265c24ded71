"""Where memory is kept: the port and its engines."""
