"""The server of a team: who asks, what each may see, and what is noted of it."""
