"""A seed → a run and the faults that it will meet. Pure: no clock, no AWS, no global randomness."""

import random
from dataclasses import dataclass
from typing import Any, Literal

from everstep.contracts.names import construct_id
from everstep.contracts.payloads import HANDLER_STATES, RULE_HANDLERS

Kind = Literal[
    "bug",
    "capacity",
    "corrupt_newest",
    "crash_lambda",
    "events",
    "file_system",
    "freeze",
    "interrupt_spot",
    "kill_host",
    "kill_process",
    "no_room",
    "s3_slowdown",
    "schedule_off",
    "stop_redrive",
    "throttle",
]
TrainerKind = Literal["lean", "boto3", "torch"]

OF_A_FILE_SYSTEM = frozenset({"PrepareStorage", "ReleaseStorage"})
"""Met only by a run that is on Lustre: see ``_on_a_file_system``. They die at each of their calls
in tests/lambdas: in test_data_tasks.py and test_own_lustre.py."""
HANDLERS = tuple(
    name
    for name in (*(state.value for state in HANDLER_STATES), *map(construct_id, RULE_HANDLERS))
    if name not in OF_A_FILE_SYSTEM
)
"""Every other handler may crash. Their functions' names end so."""
AFTER_THE_END = "WriteReport"
"""The one that may have its turn when the run is over."""
FINISHING = frozenset({"ExportModel", "VerifyExport", "RegisterModel"})
FINISH = {"export": True, "register": True, "instance_type": "ml.m5.large"}
FOREIGN_EXPORT = ["python", "tests/chaos/lean_export.py"]
CONTINUE_AFTER_TURNS = 3
"""``config/chaos.toml``: so many launches that wait for capacity fill an execution."""
TORCH_EVERY = 25
BOTO3_EVERY = 5
OWN_FILE_SYSTEM = (6, 10)
CHECKPOINTS_ON_LUSTRE = (49, 50)
"""(remainder, every): lean seeds that make a file system, torch ones that use the stack's."""
LEAN_STEPS, TORCH_STEPS = 60, 40
WATCH = {"starting": 60, "warmup": 60, "downloading": 60, "step": 10, "stopping": 60}


@dataclass(frozen=True)
class Fault:
    """``kind`` with its details, once the run has reached step ``at`` (0: before it starts)."""

    at: int
    kind: Kind
    details: dict[str, Any]

    def __str__(self) -> str:
        said = ",".join(f"{k}={v}" for k, v in self.details.items())
        return f"{self.kind}@{self.at}" + (f"({said})" if said else "")


@dataclass(frozen=True)
class Plan:
    """One chaos run."""

    seed: int
    trainer: TrainerKind
    spec: dict[str, Any]
    faults: tuple[Fault, ...]

    name: str = "chaos"

    @property
    def run_id(self) -> str:
        return f"{self.name}-{self.seed:06d}"

    @property
    def steps(self) -> int:
        return int(self.spec["stop"]["steps"])


def plan(seed: int) -> Plan:
    """The same seed gives the same plan, on every machine and in every version of Python."""
    draw = random.Random(f"everstep chaos {seed}")
    trainer: TrainerKind = "lean"
    if seed % TORCH_EVERY == TORCH_EVERY - 1:
        trainer = "torch"
    elif seed % BOTO3_EVERY == BOTO3_EVERY - 1:
        trainer = "boto3"
    spot = trainer != "boto3" and draw.random() < 0.35
    nodes = 2 if trainer == "torch" or draw.random() < 0.4 else 1
    spec = _spec(trainer, nodes, spot)
    steps = int(spec["stop"]["steps"])
    count = draw.choice((1, 2, 2, 3) if trainer == "torch" else (1, 2, 2, 3, 3, 4, 5))
    kinds = _kinds(trainer, spot)
    faults = [_fault(draw, draw.choice(kinds), steps, nodes) for _ in range(count)]
    faults += _leading(faults, draw, steps)
    faults += _on_a_file_system(seed, spec)
    faults.sort(key=lambda f: f.at)
    if _crashed(faults) & FINISHING or draw.random() < 0.25:
        spec["finish"] = dict(FINISH)
        if trainer != "torch":
            spec["finish"]["command"] = FOREIGN_EXPORT
    bug = next((f.at for f in faults if f.kind == "bug"), None)
    if bug is not None and trainer != "torch":
        spec["trainer"]["environment"][f"{_prefix(trainer)}_BUG_AT"] = str(bug)
    return Plan(seed, trainer, spec, tuple(faults))


def _on_a_file_system(seed: int, spec: dict[str, Any]) -> list[Fault]:
    """Draws of its own: what the other seeds drew before there were such runs, they draw still."""
    draw = random.Random(f"everstep chaos storage {seed}")
    kind = "PrepareStorage" if _is(seed, OWN_FILE_SYSTEM) else "ReleaseStorage"
    crash = Fault(0, "crash_lambda", {"function": kind, "times": draw.randint(1, 2)})
    if _is(seed, OWN_FILE_SYSTEM):
        spec["data"] = {"prefix": spec["data"], "mode": "fsx", "scratch_gib": 1200}
        trouble = {"fault": draw.choice(("fails", "limit")), "count": draw.randint(1, 2)}
        return [crash, *([Fault(0, "file_system", trouble)] if draw.random() < 0.5 else [])]
    if _is(seed, CHECKPOINTS_ON_LUSTRE):
        spec["data"] = {"prefix": spec["data"], "mode": "fsx", "preload": True}
        spec["checkpoint"] |= {"storage": "fsx", "export": True}
        return [crash]
    return []


def _is(seed: int, which: tuple[int, int]) -> bool:
    return seed % which[1] == which[0]


def _crashed(faults: list[Fault]) -> set[str]:
    return {f.details["function"] for f in faults if f.kind == "crash_lambda"}


def _leading(faults: list[Fault], draw: random.Random, steps: int) -> list[Fault]:
    """What leads a run to a handler that is to crash, and that it would not meet on its way. The
    torch trainer has no bug to give up for."""
    crashed, kinds = _crashed(faults), {f.kind for f in faults}
    ways: dict[str, Fault] = {
        "ContinueAsNew": Fault(0, "capacity", {"count": CONTINUE_AFTER_TURNS}),
        "GiveUp": Fault(draw.randrange(1, steps - 2), "bug", {}),
        "InspectAttempt": Fault(draw.randrange(1, steps // 2), "schedule_off", {"seconds": 16}),
        "WaitForRoom": Fault(0, "no_room", {"count": 1}),
    }
    return [way for name, way in ways.items() if name in crashed and way.kind not in kinds]


def _kinds(trainer: TrainerKind, spot: bool) -> list[Kind]:
    kinds: list[Kind] = [
        "capacity",
        "crash_lambda",
        "crash_lambda",
        "events",
        "freeze",
        "kill_host",
        "kill_host",
        "kill_process",
        "no_room",
        "s3_slowdown",
        "schedule_off",
        "stop_redrive",
        "throttle",
    ]
    if spot:
        kinds += ["interrupt_spot", "interrupt_spot"]
    if trainer != "torch":
        kinds.append("bug")
    if trainer != "boto3":  # that one keeps its promises, but verifies no checksum
        kinds.append("corrupt_newest")
    return kinds


def _fault(draw: random.Random, kind: Kind, steps: int, nodes: int) -> Fault:
    at = draw.randrange(1, steps - 2)
    early = 0 if draw.random() < 0.5 else at
    host = f"algo-{draw.randint(1, nodes)}"
    match kind:
        case "bug":
            return Fault(at, kind, {})
        case "no_room":
            return Fault(early, kind, {"count": draw.randint(1, 2)})
        case "capacity":
            return Fault(early, kind, {"count": draw.randint(1, 3)})
        case "throttle":
            operation = draw.choice(("CreateTrainingJob", "DescribeTrainingJob"))
            return Fault(early, kind, {"operation": operation, "count": draw.randint(1, 12)})
        case "crash_lambda":
            handler = draw.choice(HANDLERS)
            times = 1 if handler == "QuotaReport" else draw.randint(1, 2)
            # what leads to these three comes before the first step
            when = 0 if handler in ("ContinueAsNew", "GiveUp", "WaitForRoom") else early
            return Fault(when, kind, {"function": handler, "times": times})
        case "events":
            mode = draw.choice(("lose", "double", "triple", "late"))
            return Fault(early, kind, {"mode": mode, "count": draw.randint(1, 8)})
        case "freeze":
            return Fault(at, kind, {"host": host if draw.random() < 0.5 else None})
        case "kill_host" | "kill_process":
            return Fault(at, kind, {"host": host})
        case "file_system":
            raise AssertionError("of runs that make one: see _on_a_file_system")
        case "s3_slowdown":
            return Fault(early, kind, {"count": draw.randint(1, 20)})
        case "schedule_off":
            return Fault(early, kind, {"seconds": draw.randint(4, 16)})
        case "stop_redrive":
            return Fault(at, kind, {"at_once": draw.random() < 0.5})
        case "interrupt_spot":
            return Fault(at, kind, {"capacity_back": draw.random() < 0.7})
        case "corrupt_newest":
            # Damage alone is only met by who looks: a host is lost with it.
            return Fault(max(at, steps // 3), kind, {"host": host})


def _spec(trainer: TrainerKind, nodes: int, spot: bool) -> dict[str, Any]:
    steps = TORCH_STEPS if trainer == "torch" else LEAN_STEPS
    target = {"instance_type": "ml.m5.large", "nodes": nodes}
    if spot:
        target["purchase"] = "spot"
    train: dict[str, Any] = {
        "sequence_length": 128,
        "global_batch": 16,
        "micro_batch": 4,
        "dtype": "fp32",
    }
    spec: dict[str, Any] = {
        "model": "tiny",
        "data": "datasets/stdlib",
        "compute": [target],
        "train": train,
        "checkpoint": {"every_steps": 10 if trainer == "torch" else 5},
        "retry": {"backoff_seconds": 1, "backoff_cap_seconds": 3, "max_attempts": 12},
        "watch": WATCH,
        "stop": {"steps": steps, "max_runtime_hours": 1},
    }
    if trainer == "torch":
        train |= {"lr": 0.003, "warmup_steps": 10}
        spec["watch"] = {**WATCH, "starting": 120, "warmup": 120, "step": 20, "save": 30}
        return spec
    script = "tests/chaos/lean.py" if trainer == "lean" else "tests/scenarios/foreign.py"
    environment = {f"{_prefix(trainer)}_STEP_SECONDS": "0.1"}
    spec["trainer"] = {"command": ["python", script], "environment": environment}
    return spec


def _prefix(trainer: TrainerKind) -> str:
    return "LEAN" if trainer == "lean" else "FOREIGN"
