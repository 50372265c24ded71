"""What each agent client says, turned into captured events."""
