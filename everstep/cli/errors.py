"""What a person did, or AWS said, that the command cannot go on from."""

from typing import NoReturn

BAD_INPUT, NOT_FOUND = 2, 3


class CliError(Exception):
    """Printed as ``error: …`` and ``hint: …``; never a traceback."""

    def __init__(self, what: str, hint: str, code: int = BAD_INPUT) -> None:
        super().__init__(what)
        self.what, self.hint, self.code = what, hint, code


def fail(what: str, hint: str, code: int = BAD_INPUT) -> NoReturn:
    raise CliError(what, hint, code)
