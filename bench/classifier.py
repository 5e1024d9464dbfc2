"""How right and how safe is the classifier? ``python bench/classifier.py [FILE.jsonl] [--json]``

Each line: id, text, where, class, action; ``also`` and ``also_action`` name what else is right; an
``ambiguous`` line accepts what its note names. Safe: a live job is left alone, a transient is not
given up, a hopeless one is not retried. The default file is the project's own corpus: what it was
worth on messages that it had not seen is in tests/policy/corpus.md, since every round was mended
after it was first scored.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from everstep.contracts.failures import Action, FailureClass  # noqa: E402
from everstep.contracts.records import Outcome  # noqa: E402
from everstep.policy.classify import WORDS, Evidence, LogLine, classify  # noqa: E402
from everstep.policy.reading import Where, read  # noqa: E402

CORPUS = ROOT / "tests" / "policy" / "corpus.jsonl"
RESULT = ROOT / "bench" / "results" / "classifier.json"


def kind(action: str) -> str:
    """What an action does to the job: only this can do harm."""
    return {"wait": "wait", "do_not_retry": "stop"}.get(action, "retry")


def accepted(entry: dict[str, Any], words: type[FailureClass] | type[Action], key: str) -> set[str]:
    """The label, what ``also`` and ``also_action`` allow, and of an ambiguous one its note."""
    note = entry.get("note", "") if entry.get("ambiguous") else ""
    also = entry.get("also" if key == "class" else "also_action") or []
    also = [also] if isinstance(also, str) else also
    return {entry[key], *also, *(word.value for word in words if word.value in note)}


def score(entries: list[dict[str, Any]]) -> dict[str, Any]:
    want, got, both = Counter[str](), Counter[str](), Counter[str]()
    safe, exact = Counter[str](), 0
    wrong = []
    for entry in entries:
        failure = classify(read(entry["text"], Where(entry["where"])))
        label = WORDS[FailureClass(entry["class"])].value
        found = WORDS[failure.failure_class].value
        classes = {label, *accepted(entry, FailureClass, "class")}
        kinds = {kind(x) for x in accepted(entry, Action, "action")}
        if found in classes:
            found = label
        want[label] += 1
        got[found] += 1
        both[label] += found == label
        safe[label] += kind(failure.action) in kinds
        exact += failure.action in accepted(entry, Action, "action")
        if found != label or kind(failure.action) not in kinds:
            wrong.append(f"{entry['id']}: {label}/{entry['action']} → {found}/{failure.action}")
    rows = {
        name: {
            "messages": want[name],
            "precision": both[name] / got[name] if got[name] else None,
            "recall": both[name] / want[name] if want[name] else None,
            "safe": safe[name] / want[name] if want[name] else None,
        }
        for name in sorted(want | got)
    }
    total = sum(want.values())
    return {
        "messages": total,
        "class_right": sum(both.values()) / total,
        "action_right": exact / total,
        "action_safe": sum(safe.values()) / total,
        "classes": rows,
        "wrong": wrong,
    }


def table(name: str, result: dict[str, Any]) -> str:
    lines = [f"{name}: {result['messages']} messages"]
    lines.append(f"{'class':20} {'n':>4} {'precision':>10} {'recall':>8} {'safe':>7}")
    for label, row in result["classes"].items():
        cells = [
            "–" if row[x] is None else f"{row[x]:.1%}" for x in ("precision", "recall", "safe")
        ]
        lines.append(f"{label:20} {row['messages']:>4} {cells[0]:>10} {cells[1]:>8} {cells[2]:>7}")
    lines.append(
        f"class right {result['class_right']:.1%}, action safe {result['action_safe']:.1%}, "
        f"action exact {result['action_right']:.1%}"
    )
    return "\n".join([*lines, *(f"  wrong: {x}" for x in result["wrong"])])


def tail(ranks: int = 64, lines: int = 200) -> Evidence:
    """A run's log as the Classify state reads it: chatter, steps, one cause, loud victims."""
    said = [
        LogLine(time_epoch=i, host=f"algo-{r}", text=text)
        for r in range(ranks)
        for i in range(0, lines, 2)
        for text in (
            f"[rank{r}]: step {i} | loss 2.{i:03d} | lr 3.0e-04 | tok/s {40_000 + i}",
            f"[rank{r}]: loading part-{i}.bin of the file list into the cache of worker {i % 12}",
        )
    ]
    said.append(LogLine(time_epoch=lines, host="algo-7", text="[rank7]: KeyError: 'text'"))
    watchdog = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=911)"
    said += [
        LogLine(time_epoch=lines + 600, host=f"algo-{r}", text=f"[rank{r}]:[E] {watchdog}")
        for r in range(ranks)
    ]
    failed = Outcome(status="Failed", secondary_status="Failed", failure_reason="AlgorithmError: ,")
    return Evidence(outcome=failed, log=said)


def seconds(evidence: Evidence) -> float:
    started = time.perf_counter()
    classify(evidence)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--json", action="store_true", help=f"also write {RESULT.name}")
    options = parser.parse_args()
    lines = options.file.read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines if line.strip()]
    result = score(entries)
    print(table(options.file.name, result))
    worst = read("\n".join(["socket s3 node worker timeout " * 270] * 32), Where.LOG)
    for name, log in (("64 ranks x 200 lines", tail()), ("256 KiB of words", worst)):
        print(f"time of {name}: {seconds(log):.2f} s")
    if options.json:
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(
            json.dumps({"file": options.file.name, **result}, indent=2) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
