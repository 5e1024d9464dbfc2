"""The reference trainer. ``trainer.launch`` starts it; ``trainer.main`` is one rank of it."""
