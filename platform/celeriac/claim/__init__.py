"""Step three: a pool child makes a job its own."""
