"""Clients of the shop's third parties.

Each speaks HTTP and raises its own catalogue of errors, each with a code.
"""
