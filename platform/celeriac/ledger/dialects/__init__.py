"""SQL of one database each: the only place with it."""
