"""One web server over a log: what its applications, topics and stores hold and do."""
