"""Everstep: LLM training on AWS that arrives."""

__version__ = "0.1.0"
