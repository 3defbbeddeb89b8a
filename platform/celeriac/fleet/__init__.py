"""Which processes live, and what becomes of the jobs of those that don't."""
