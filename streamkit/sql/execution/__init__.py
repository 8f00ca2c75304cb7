"""What a session does with each statement."""
