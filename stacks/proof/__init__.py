"""What a security reviewer reads: our own rules, and what the linters say of the templates."""
