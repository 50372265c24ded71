"""From the words of a question to ranked hits."""
