"""Step four: what a run leaves behind, remembered and not yet written."""
