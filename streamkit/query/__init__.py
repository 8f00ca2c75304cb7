"""What of a topic or a store somebody asks for: conditions, positions, portions, keys."""
