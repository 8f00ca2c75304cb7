"""From a script to one topology."""
