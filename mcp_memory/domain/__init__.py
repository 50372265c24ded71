"""Pure values and functions: no input, no output, no clock."""
