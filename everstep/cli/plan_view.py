"""``everstep plan`` as a person reads it; with its sources where they are asked for."""

from collections.abc import Mapping, Sequence
from typing import Any

from everstep.cli.output import out
from everstep.cli.plan_figures import GIB, Figure

WIDTH = 22
MEMORY = "everstep/policy/memory_peak.py, held to torch's own counts: docs/trainer.md"
MESH = "everstep/contracts/mesh.py: what the sharding's name means on so many ranks"
LABELS = {
    "tokens_per_s": "pace",
    "step_seconds": "step time",
    "training_seconds": "training alone",
    "checkpoint_bytes": "checkpoint",
    "checkpoint_host_bytes": "checkpoint's copy",
    "checkpoint_interval_seconds": "checkpoint every",
    "first_start_seconds": "first start",
    "duration_seconds": "duration",
    "on_demand_usd_hour": "on demand, a host-hour",
    "spot_usd_hour": "spot, a host-hour",
    "plan_usd_hour": "plan, a host-hour",
    "gpu_hours": "paid for",
    "file_system_usd": "its file system",
    "cost_usd": "cost",
    "budget_usd": "budget",
    "budget_gpu_hours": "budget",
    "budget_deadline": "budget",
}
PARTS = {
    "parameters": "fp32 shards",
    "optimizer": "two fp32 moments of each trained parameter (AdamW)",
    "gradients": "fp32 shards between microbatches, or whole while they are reduced",
    "activations": "made by forward for backward, of all microbatches in flight; in a pipeline "
    "also a receive buffer for each microbatch of a step",
    "working": "gathered parameters, gradients on their way",
    "total": "the sum, at the moment of a step when it is greatest",
}


def show_plan(
    parameters: int,
    places: Sequence[dict[str, Any]],
    foretold: Sequence[Mapping[str, Figure]],
    explain: bool,
) -> None:
    """One line a figure; under it, with ``explain``, its source."""

    def line(name: str, text: str, source: str) -> None:
        out.print(f"{name:<{WIDTH}} {text}", markup=False)
        if explain:
            out.print(f"{'':<{WIDTH}}   from: {source}", markup=False, style="dim")

    line("model", f"{parameters:,} parameters", "everstep/contracts/models.py, or the spec's shape")
    for number, place in enumerate(places):
        out.print("")
        where = f"{place['where']}, {place['ranks']} ranks"
        line(f"compute.{number}", where, "the spec; a rank a GPU")
        mesh = " × ".join(f"{name} {size}" for name, size in place["mesh"].items())
        line("mesh", f"{place['sharding']}: {mesh}", MESH)
        line(
            "step",
            f"{place['tokens_per_step']:,} tokens, {place['micro_batches']} microbatches a rank",
            "global_batch × sequence_length; global_batch ÷ (data ranks × micro_batch)",
        )
        _memory(line, place)
        for name, figure in foretold[number].items():
            label, _, quota = name.partition(": ")
            text = f"{quota}: {figure.text}" if quota else figure.text
            line(LABELS.get(label, label.replace("_", " ")), text, figure.source)


def _memory(line: Any, place: Mapping[str, Any]) -> None:
    if place["memory_bytes"] is None:
        line("memory", "not planned: no GPU, or a program of your own", MEMORY)
        return
    for part, size in place["memory_bytes"].items():
        line(f"memory {part}", f"{size / GIB:.2f} GiB", f"{PARTS[part]}; {MEMORY}")
    usable = f"{place['gpu_bytes'] / GIB:.2f} GiB"
    line("memory usable", usable, "nine tenths of the GPU: the rest is assumed for CUDA and NCCL")
    would = place["would_fit"] or "none of the changes that were tried"
    verdict = "yes" if place["fits"] else f"no; would: {would}"
    line("fits", verdict, "total ≤ usable; else the first of a few changes, from cheap to dear")
