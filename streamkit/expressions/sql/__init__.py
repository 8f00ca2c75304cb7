"""The one reader of expressions in SQL: how a text is cut into words, and the tree that words mean, in either dialect."""
