"""What a person did, or AWS said, that the command cannot go on from."""

from typing import NoReturn

OK, NOT_ARRIVED, BAD_INPUT, NOT_FOUND, INTERRUPTED = 0, 1, 2, 3, 130

EXIT_CODES = {
    OK: "done, or nothing was to be done",
    NOT_ARRIVED: "the run did not arrive (gave up, stopped, refused); a check of `doctor` failed; "
    "this machine failed (disk full); or whoever read the output has closed it (`head`)",
    BAD_INPUT: "wrong arguments or a wrong spec, or refused as things stand: nothing was changed",
    NOT_FOUND: "no such run, launch, checkpoint or environment; or AWS is not reachable",
    INTERRUPTED: "interrupted (Ctrl-C): a run that was started goes on",
}
"""Of every command: docs/cli.md has the same table."""


DISK = "this disk is full: make room (df -h), and run the command again"
PAGE, SPEC_PAGE = "docs/errors.md", "docs/run-spec.schema.json"
"""Where an error is read on: in general, and of a run spec's fields."""


class CliError(Exception):
    """Printed as ``shown``; never a traceback."""

    def __init__(self, what: str, hint: str, code: int = BAD_INPUT, see: str = PAGE) -> None:
        super().__init__(what)
        self.what, self.hint, self.code, self.see = what, hint, code, see

    @property
    def shown(self) -> str:
        """What failed with which value, what to do, where to read on."""
        return f"error: {self.what}\nhint: {self.hint}\nsee: {self.see}"

    def as_dict(self) -> dict[str, str | int]:
        """What ``--json`` prints of it."""
        return {"error": self.what, "hint": self.hint, "see": self.see, "exit_code": self.code}


def fail(what: str, hint: str, code: int = BAD_INPUT, see: str = PAGE) -> NoReturn:
    raise CliError(what, hint, code, see)
