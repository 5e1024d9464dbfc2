"""A seeded order of all samples that needs no memory: place ``i`` is computed, not looked up.

A keyed Feistel network permutes the numbers below a power of four; numbers at or above the
number of samples are walked past. So any position is reached in O(1), which is what makes
restoring the data position after a failure free.
"""

from hashlib import blake2b

_ROUNDS = 6


class Order:
    """One epoch's permutation of ``range(count)``, the same for the same (seed, epoch)."""

    def __init__(self, count: int, seed: int, epoch: int) -> None:
        self.count = count
        self._bits = max(1, ((count - 1).bit_length() + 1) // 2)
        self._mask = (1 << self._bits) - 1
        keys = blake2b(f"{seed}/{epoch}".encode(), digest_size=8 * _ROUNDS).digest()
        self._keys = [int.from_bytes(keys[8 * i : 8 * i + 8], "little") for i in range(_ROUNDS)]

    def __getitem__(self, place: int) -> int:
        """The sample at ``place`` (0 ≤ place < count)."""
        if not 0 <= place < self.count:
            raise IndexError(place)
        value = self._permute(place)
        while value >= self.count:
            value = self._permute(value)
        return value

    def _permute(self, value: int) -> int:
        left, right = value >> self._bits, value & self._mask
        for key in self._keys:
            left, right = right, left ^ (_mix(right ^ key) & self._mask)
        return (left << self._bits) | right


def _mix(value: int) -> int:
    """Finaliser of a 64-bit hash: every input bit reaches the low bits that are kept."""
    value &= 0xFFFFFFFFFFFFFFFF
    value = ((value ^ (value >> 31)) * 0x7FB5D329728EA185) & 0xFFFFFFFFFFFFFFFF
    value = ((value ^ (value >> 27)) * 0x81DADEF4BC2DD44D) & 0xFFFFFFFFFFFFFFFF
    return value ^ (value >> 33)
