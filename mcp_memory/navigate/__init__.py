"""The read side: queries, time phrases and rendering."""
