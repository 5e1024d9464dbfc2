"""The looks of one pass of the watchdog, beside each other: one ill run hides no other."""

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import NamedTuple

from lambdas.aws.patrol import Stepping
from lambdas.aws.services import logger


class Look(NamedTuple):
    name: str
    take: Callable[[], Stepping | None]


class Pass:
    """Looks of one kind are taken at once, ``at_once`` of them; kinds one after another, since an
    increase that was granted lets a run go on in the same pass."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self.failed: list[str] = []
        self.stepping: list[Stepping] = []

    def take(self, looks: Iterable[Look]) -> int:
        """How many there were. No more are begun than are looked at, so that what ends this
        process (not an ``Exception``) ends the pass with it."""
        count, going = 0, dict[Future[Stepping | None], str]()
        with ThreadPoolExecutor(self._at_once, thread_name_prefix="look") as pool:
            for look in looks:
                count += 1
                if len(going) >= self._at_once:
                    self._collect(going, wait(going, return_when=FIRST_COMPLETED).done)
                going[pool.submit(look.take)] = look.name
            self._collect(going, wait(going).done)
        return count

    def _collect(
        self, going: dict[Future[Stepping | None], str], done: set[Future[Stepping | None]]
    ) -> None:
        for future in done:
            name = going.pop(future)
            try:
                found = future.result()
            except Exception as error:  # noqa: BLE001 - raised below; the others still get a look
                logger.exception("one run could not be looked at", item=name)
                self.failed.append(f"{name}: {error!r}")
            else:
                self.stepping.extend([found] if found else [])
