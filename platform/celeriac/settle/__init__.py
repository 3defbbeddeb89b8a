"""Step five: how a run ended, decided by values and written once."""
