"""The ledger: the one writer of a job's state, and the questions others ask of it."""
