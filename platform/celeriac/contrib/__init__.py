"""Pieces for other tools, each imported by nobody but its tool."""
