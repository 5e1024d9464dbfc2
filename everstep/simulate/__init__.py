"""Months of a run in seconds, driven by the production policy code: see docs/simulate.md."""
