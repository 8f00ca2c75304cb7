"""How things look on a terminal, and how they are asked there."""
