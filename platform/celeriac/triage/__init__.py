"""Step six: a person decides about a dead letter."""
