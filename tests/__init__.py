"""Sorted by what is real in them: unit (nothing), integration (database, Redis), acceptance (processes), browser."""
