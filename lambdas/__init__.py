"""One folder a state or rule. A handler parses, asks the policy, acts; ``aws`` is shared."""
