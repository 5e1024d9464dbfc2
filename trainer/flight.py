"""Which rank kept the others waiting, and in which collective: from torch's flight records.

Every rank that can writes its record: when a collective times out, or when the launcher asks. The
errors themselves name neither rank nor collective (gloo). Imports no torch but to write.
"""

import pickle
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from trainer.host import Worker

Seen = dict[str, tuple[int, str]]
"""By process group: number and name of the last collective that a rank has entered."""


def write_record(worker: Worker) -> None:
    """This rank's record, where the launcher looks for it (NCCL's own dumps go there too)."""
    from torch._C._distributed_c10d import _dump_fr_trace  # type: ignore[attr-defined]

    try:
        path = worker.record(worker.rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_dump_fr_trace(True, True, False))
    except Exception as trouble:  # noqa: BLE001 - evidence is lost, the failure itself is not
        print(f"trainer: no flight record: {trouble}", file=sys.stderr, flush=True)


def last_seen(path: Path) -> Seen | None:
    """None where there is no record, or half of one. Records are written by our own ranks."""
    try:
        entries = pickle.loads(path.read_bytes())["entries"]
    except (OSError, EOFError, KeyError, pickle.UnpicklingError):
        return None
    seen: Seen = {}
    for entry in entries:
        if entry.get("is_p2p"):
            continue
        name, description = entry["process_group"]
        number = int(entry["collective_seq_id"])
        group = f"{name} ({description})"
        if number >= seen.get(group, (0, ""))[0]:
            seen[group] = number, str(entry["profiling_name"])
    return seen


def blame(records: Mapping[int, Seen], ranks: int) -> tuple[int, str] | None:
    """The rank that the others waited for, and the words; None where the records do not tell.

    A rank without a record could not write one, so it is the one; else the one that is behind in
    the collective that most ranks entered last.
    """
    if not records:
        return None
    silent = sorted(set(range(ranks)) - set(records))
    latest: Counter[tuple[str, int, str]] = Counter()
    for seen in records.values():
        latest.update((group, number, name) for group, (number, name) in seen.items())
    behind = {
        (group, number, name): sorted(
            rank for rank, seen in records.items() if group in seen and seen[group][0] < number
        )
        for group, number, name in latest
    }
    waited = max(latest, key=lambda entry: (bool(behind[entry]), latest[entry], entry[1]))
    late = silent or behind[waited]
    if not late:
        return None
    group, number, name = waited
    others = sorted(r for r, seen in records.items() if seen.get(group, (0, ""))[0] == number)
    waiting = ", ".join(map(str, others[:8])) + (" …" if len(others) > 8 else "")
    return late[0], (
        f"rank {late[0]} did not come to collective {number} of group {group}, {name}, "
        f"in which rank{'s' if len(others) > 1 else ''} {waiting} waited"
    )
