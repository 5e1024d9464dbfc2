"""The skip ledger: which samples a run leaves out, since training on them went wrong.

``skips.json`` beside the checkpoints, written whole and durable before the trainer goes back: so a
run that is killed at any moment of a rewind skips the same samples, and so does every later start.
"""

from pydantic import BaseModel, ConfigDict

from trainer.store import Store

LEDGER = "skips.json"


class Skip(BaseModel):
    """Samples ``start`` … ``start + count - 1`` of the global order, and why."""

    model_config = ConfigDict(frozen=True)

    start: int
    count: int
    step: int
    """Optimizer step that they would have been."""
    reason: str
    checkpoint: int
    """Step of the checkpoint that the trainer went back to; 0: the beginning."""


class Skips(BaseModel):
    """The ledger."""

    model_config = ConfigDict(frozen=True)

    schema_version: int = 1
    skipped: list[Skip] = []

    @classmethod
    def read(cls, store: Store) -> "Skips":
        text = store.read(LEDGER)
        return cls() if text is None else cls.model_validate_json(text)

    def write(self, store: Store) -> None:
        store.write(LEDGER, self.model_dump_json(indent=1).encode())

    def after(self, position: int, count: int) -> int:
        """The first position from ``position`` on whose next ``count`` samples are not skipped."""
        for skip in sorted(self.skipped, key=lambda item: item.start):
            if position < skip.start + skip.count and skip.start < position + count:
                position = skip.start + skip.count
        return position

    def since(self, checkpoint: int) -> int:
        """Rewinds to this checkpoint or a newer one."""
        return sum(skip.checkpoint >= checkpoint for skip in self.skipped)

    def plus(self, skip: Skip) -> "Skips":
        return self.model_copy(update={"skipped": [*self.skipped, skip]})
