"""What tests stand on: real services, real processes, a real browser, and waiting for events."""
