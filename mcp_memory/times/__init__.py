"""Time phrases: from "last week" to a range of time."""
