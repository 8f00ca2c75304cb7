"""Trees as text, in either dialect: what the reader makes of the text is the same tree."""
