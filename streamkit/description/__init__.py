"""What is said of a log's things as plain values, by the program and by the server alike."""
