"""What keeps the ledger well: doctor."""
