"""Formats what happened: logs, the story of a job, the state of the platform."""
