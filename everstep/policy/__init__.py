"""Decisions, and nothing else: pure functions of contracts. No I/O, no clock, no randomness."""
