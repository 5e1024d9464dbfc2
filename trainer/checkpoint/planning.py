"""Which rank writes what, and into which file.

DCP spreads what several ranks hold alike over the ranks that hold it. AdamW's step counts, one
scalar a parameter, would then lie in every rank's file, and every rank would read all files. Here
scalars go to the first rank that holds them, into a small file of their own.
"""

from dataclasses import replace

from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, WriteItem


def is_scalar(item: WriteItem) -> bool:
    return item.tensor_data is not None and item.tensor_data.size.numel() == 1


class Planner(DefaultSavePlanner):
    """DCP's own, but for scalars. Made anew for each save."""

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        taken: set[MetadataIndex] = set()
        plans = []
        for plan in all_plans:
            items = [i for i in plan.items if not (is_scalar(i) and i.index in taken)]
            taken |= {item.index for item in items if is_scalar(item)}
            plans.append(replace(plan, items=items))
        return super().create_global_plan(plans)
