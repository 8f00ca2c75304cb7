"""What runs connectors: tasks, their restarts, positions, and who shares the work."""
