"""What notebooks show and keep up: runs, topics and stores that somebody watches."""
