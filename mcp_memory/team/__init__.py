"""A laptop's side of a team's memory: who one is there, what is sent, and what is asked."""
