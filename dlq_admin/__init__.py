"""The desk for dead letters and whatever else needs a person's hand, inside the Django admin."""
