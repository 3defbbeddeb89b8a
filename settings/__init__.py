"""Settings of the reference project: `base` and one module for each place it runs in."""
