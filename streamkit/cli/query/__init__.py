"""Which records a command is about: conditions, positions, portions."""
