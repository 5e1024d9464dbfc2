"""Errors that the trainer raises itself: each knows its failure class."""

from everstep.contracts.failures import FailureClass


class TrainerError(Exception):
    """Something wrong that a person can mend: what failed, the value, and what to do."""

    failure_class: FailureClass | None = None

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message} (hint: {hint})")
        self.hint = hint


class ConfigError(TrainerError):
    """The configuration cannot work, here or anywhere."""

    failure_class = FailureClass.BAD_CONFIG


class DataError(TrainerError):
    """The dataset is missing, torn or not the one that its index describes."""

    failure_class = FailureClass.BAD_DATA


class DivergedError(TrainerError):
    """The loss or the gradient is not a number any more."""

    failure_class = FailureClass.DIVERGED


class CheckpointError(TrainerError):
    """The final checkpoint could not be made durable."""
