"""What a text of SQL may go on with: words and names."""
