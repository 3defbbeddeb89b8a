"""Step one: rows in the caller's transaction."""
