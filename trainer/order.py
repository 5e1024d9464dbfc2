"""The one order of all samples: position → (source, window), computed, never looked up.

Any position is reached in O(1), which is what makes restoring the data position free; and the
order is the same in every ``data.mode``, so the mode may change within a run.

It is made for reading in large pieces without spoiling a batch. A *run* is ``run`` places of one
source that follow each other, so its windows adjoin in storage. Positions go through *blocks* of
``lanes`` runs side by side: slot ``j`` of each of ``run`` global batches takes the next window of
the block's run ``j``. So the samples of one batch come from as many places of the corpus as it
has slots, while each rank, whatever the number of ranks, reads whole runs and no other rank's.

A keyed Feistel network over two digits permutes the numbers below the least product of two
nearly equal digits that holds all items; the few numbers beyond the items are walked past.
"""

from dataclasses import dataclass
from hashlib import blake2b
from math import isqrt

import numpy as np
from numpy.typing import NDArray

ORDER_VERSION = 2
"""Part of a run's identity. 1: single windows permuted, no runs (before mixtures)."""
SHARES = 10_000
"""Resolution of mixture weights: a source gets a whole number of these."""
EPOCH_BLOCKS = 64
"""Runs are so short that an epoch has at least so many blocks; in a small dataset, one window."""
_ROUNDS = 6

Numbers = NDArray[np.int64]


def longest_run(count: int, lanes: int, most: int) -> int:
    """Windows of a run where ``count`` are dealt to ``lanes``; at most ``most``, at least 1."""
    return max(1, min(most, count // (EPOCH_BLOCKS * lanes)))


class Order:
    """One epoch's permutation of ``range(count)``, the same for the same key."""

    def __init__(self, count: int, key: str) -> None:
        self.count = count
        high = max(1, isqrt(count - 1) + 1)
        self._high, self._low = np.uint64(high), np.uint64(-(-count // high))
        keys = blake2b(key.encode(), digest_size=8 * _ROUNDS).digest()
        self._keys = np.frombuffer(keys, dtype="<u8").astype(np.uint64)

    def __call__(self, places: Numbers) -> Numbers:
        """The item at each place (0 ≤ place < count)."""
        values = self._permute(places.astype(np.uint64))
        while (outside := values >= self.count).any():
            values[outside] = self._permute(values[outside])
        return values.astype(np.int64)

    def _permute(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        high, low = np.divmod(values, self._low)
        for odd, even in zip(self._keys[::2], self._keys[1::2], strict=True):
            high = (high + _mix(low ^ odd)) % self._high
            low = (low + _mix(high ^ even)) % self._low
        return high * self._low + low


@dataclass(frozen=True)
class Windows:
    """Where places lead. ``first`` and ``size`` tell the windows around each that adjoin it in
    the corpus and in the same run: what is worth reading in one go. All of shape (places,)."""

    window: Numbers
    first: Numbers
    size: Numbers

    def __getitem__(self, chosen: NDArray[np.bool_]) -> "Windows":
        return Windows(self.window[chosen], self.first[chosen], self.size[chosen])


class Source:
    """One dataset's endless sequence of windows: epoch after epoch, each in another order.

    An epoch is its whole runs of ``own`` windows, permuted, and then the windows that are left.
    """

    def __init__(self, count: int, seed: int, number: int, lanes: int, run: int) -> None:
        """``count``: windows; ``run``: of the blocks, that of a small source is shorter."""
        self.count, self.run = count, run
        self.own = longest_run(count, lanes, run)
        self._key = f"{seed}/{number}"
        self._runs = count // self.own
        self._orders: dict[int, Order] = {}

    def windows(self, places: Numbers) -> Windows:
        """The windows at places of the endless sequence; place // count is the epoch."""
        epoch, place = np.divmod(places, self.count)
        number, step = np.divmod(place, self.own)
        found = number.copy()
        whole = number < self._runs
        for e in np.unique(epoch).tolist():
            chosen = whole & (epoch == e)
            found[chosen] = self._order(e)(number[chosen])
        window = found * self.own + step
        # the places that are in the same run of the block, in the same epoch, in the same own run
        start = np.maximum(places - places % self.run, places - step)
        in_epoch = np.minimum((number + 1) * self.own, self.count)
        stop = np.minimum(places - places % self.run + self.run, epoch * self.count + in_epoch)
        return Windows(window, window - (places - start), stop - start)

    def _order(self, epoch: int) -> Order:
        if epoch not in self._orders:
            if len(self._orders) > 2:
                self._orders.clear()
            self._orders[epoch] = Order(self._runs, f"{self._key}/{epoch}")
        return self._orders[epoch]


class Interleave:
    """Positions of the job → (source, place of that source), by weight."""

    def __init__(self, weights: list[float], lanes: int, run: int) -> None:
        self.lanes, self.run = lanes, run
        self._shares = _shares(weights)
        # the n-th of c shares stands at (n + ½) / c: each source evenly, in any stretch of runs
        nth = np.concatenate([np.arange(c) for c in self._shares])
        times = np.concatenate([(np.arange(c) + 0.5) / c for c in self._shares])
        order = np.argsort(times, kind="stable")
        self._source = np.repeat(np.arange(len(weights)), self._shares)[order]
        self._nth = nth[order]

    def __call__(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """Source numbers and places, both of shape (positions,)."""
        block, rest = np.divmod(positions, self.lanes * self.run)
        step, lane = np.divmod(rest, self.lanes)
        again, share = np.divmod(block * self.lanes + lane, SHARES)
        source = self._source[share]
        return source, (again * self._shares[source] + self._nth[share]) * self.run + step

    def block(self, position: int) -> int:
        return position // (self.lanes * self.run)


def _shares(weights: list[float]) -> Numbers:
    """Whole shares that sum to ``SHARES``, none of them nought; largest remainders first."""
    wanted = np.asarray(weights) / sum(weights) * SHARES
    shares = np.maximum(1, np.floor(wanted)).astype(np.int64)
    order = np.argsort(shares - wanted, kind="stable")
    while (missing := SHARES - int(shares.sum())) > 0:
        shares[order[:missing]] += 1
    if missing < 0:
        shares[np.argmax(shares)] += missing
    return shares


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Finaliser of a 64-bit hash, cut to 63 bits so that a small number may be added."""
    values = (values ^ (values >> np.uint64(31))) * np.uint64(0x7FB5D329728EA185)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x81DADEF4BC2DD44D)
    return (values ^ (values >> np.uint64(33))) >> np.uint64(1)
