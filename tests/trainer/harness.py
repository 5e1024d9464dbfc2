"""What trainer tests share: tiny settings, progress lines, a launcher that runs, digests."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from everstep.contracts.progress import parse_line
from trainer.verify import main as verify_main

ROOT = Path(__file__).resolve().parents[2]
VOCAB = 64
PATIENCE = 300.0
"""Seconds for what comes within ten on a quiet machine: no test's verdict."""
HELD = 21
"""Windows of the held-out dataset: not a multiple of the global batch, 8."""
SMALL = {
    "model.dim": "32",
    "model.layers": "2",
    "model.heads": "4",
    "model.kv_heads": "2",
    "model.ffn_dim": "64",
    "model.vocab_size": str(VOCAB),
    "model.dropout": "0.1",
    "train.sequence_length": "32",
    "train.global_batch": "8",
    "train.micro_batch": "2",
    "train.warmup_steps": "2",
    "train.lr": "0.003",
    "train.dtype": "fp32",
    "checkpoint.every_steps": "3",
    "stop.steps": "12",
}

Lines = list[dict[str, Any]]
Alone = Callable[..., Lines]


def progress(text: str) -> Lines:
    return [json.loads(line) for line in text.splitlines() if parse_line(line)]


def losses(lines: Lines) -> dict[int, float]:
    return {line["step"]: line["loss"] for line in lines if line["everstep"] == "step"}


def of_kind(lines: Lines, kind: str) -> Lines:
    return [line for line in lines if line["everstep"] == kind]


@dataclass
class Job:
    """One host's launcher, running."""

    process: subprocess.Popen[str]
    lines: Lines = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    _news: threading.Condition = field(default_factory=threading.Condition)

    def read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            with self._news:
                self.lines.extend(progress(text))
                self.log.append(text)
                self._news.notify_all()

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool], seconds: float = PATIENCE) -> None:
        """Until a progress line is as wanted."""
        with self._news:
            assert self._news.wait_for(lambda: any(map(wanted, self.lines)), seconds), self.text

    def wait(self, seconds: float = PATIENCE) -> int:
        code = self.process.wait(seconds)
        self.reader.join(10)
        return code

    @property
    def text(self) -> str:
        return "".join(self.log)

    def ranks(self) -> list[int]:
        """Process ids of the ranks."""
        pid = self.process.pid
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    reader: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()


Launch = Callable[..., Job]


def start_job(
    base: Path,
    dataset: Path,
    ranks: int = 2,
    number: int = 1,
    environment: dict[str, str] | None = None,
    resource: dict[str, Any] | None = None,
    ml: str = "ml",
    program: str = "trainer.launch",
    **changes: Any,
) -> Job:
    """One host's launcher with SageMaker's layout below ``base``; the caller ends it."""
    flat = SMALL | {"data.path": str(dataset)}
    flat |= {k.replace("__", "."): str(v) for k, v in changes.items()}
    config = base / ml / "input" / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "hyperparameters.json").write_text(json.dumps(flat))
    if resource:
        (config / "resourceconfig.json").write_text(json.dumps(resource))
    given = {
        "EVERSTEP_ML_ROOT": str(base / ml),
        "EVERSTEP_RANKS_PER_NODE": str(ranks),
        "EVERSTEP_CHECKPOINT_URI": str(base / "checkpoints"),
        "EVERSTEP_LAUNCH": str(number),
        "EVERSTEP_OUTPUT_URI": str(base / "output"),
        "TMPDIR": str(base),
        "EVERSTEP_RDZV_PORT": str(free_port()),
        "PYTHONPATH": str(ROOT),
    }
    return Job(
        subprocess.Popen(
            [sys.executable, "-m", program],
            cwd=base,
            text=True,
            env={**os.environ, **given, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def weights(uri: str | Path) -> dict[str, Any]:
    """``trainer.verify --digest`` of the newest committed checkpoint below ``uri``."""
    out = StringIO()
    with redirect_stdout(out):
        assert verify_main([str(uri), "--digest"]) == 0
    found: dict[str, Any] = json.loads(out.getvalue())
    return found
