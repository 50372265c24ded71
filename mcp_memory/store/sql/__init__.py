"""What every engine that speaks SQL shares: the parts of the store, in a subset that each of them understands."""
