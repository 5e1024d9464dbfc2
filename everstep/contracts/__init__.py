"""Words that every room shares. Standard library and pydantic only; no I/O."""
