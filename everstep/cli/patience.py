"""An answer that may not come: asked for in a thread, so that the waiting itself can be said."""

from collections.abc import Callable, Iterator
from queue import Empty, Queue
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def asked(ask: Callable[[], T], seconds: float) -> Iterator[T | None]:
    """The answer, last; before it None whenever ``seconds`` went by without one. Raises what
    ``ask`` raises. The thread is a daemon: who is tired of waiting can leave."""
    box: Queue[tuple[T | None, BaseException | None]] = Queue()

    def work() -> None:
        try:
            box.put((ask(), None))
        except BaseException as error:  # noqa: BLE001 - raised where the answer is waited for
            box.put((None, error))

    Thread(target=work, daemon=True).start()
    while True:
        try:
            answer, error = box.get(timeout=seconds)
        except Empty:
            yield None
            continue
        if error is not None:
            raise error
        yield answer
        return
