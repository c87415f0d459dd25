"""Commands that set a database up, and help with the first steps."""
