"""Which rank writes what, and into which file.

DCP spreads what several ranks hold alike over the ranks that hold it. AdamW's step counts, one
scalar a parameter, would then lie in every rank's file, and every rank would read all files. Here
scalars go to the first rank that holds them, into a small file of their own.
"""

from dataclasses import replace

from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem


def is_scalar(item: WriteItem) -> bool:
    return item.tensor_data is not None and item.tensor_data.size.numel() == 1


class Planner(DefaultSavePlanner):
    """DCP's own, but for scalars. Made anew for each save, and planned anew only where the plan of
    some rank differs from its last one: DCP keeps the plans in the process, by class."""

    def __init__(self) -> None:
        super().__init__(enable_plan_caching=True)

    @classmethod
    def forget(cls) -> None:
        """Plan anew: ranks may disagree about what is kept after a save that failed midway."""
        for kept in (
            SavePlanner._cached_save_plan,
            SavePlanner._cached_final_save_plan,
            SavePlanner._cached_all_plans,
            SavePlanner._cached_global_plan,
            SavePlanner._cached_metadata,
        ):
            kept.pop(cls.__name__, None)

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        kept = self._cached_plans_key in SavePlanner._cached_all_plans
        if not kept and not all(plan.usable for plan in all_plans):
            # DCP would take an unchanged plan that is not kept here for one that saves nothing
            raise RuntimeError("a rank keeps a plan that the first rank has not")
        return super().create_global_plan(all_plans)

    def _dedup_save_plans(self, all_plans: list[SavePlan]) -> list[SavePlan]:
        taken: set[MetadataIndex] = set()
        plans = []
        for plan in all_plans:
            items = [i for i in plan.items if not (is_scalar(i) and i.index in taken)]
            taken |= {item.index for item in items if is_scalar(item)}
            plans.append(replace(plan, items=items))
        deduped: list[SavePlan] = super()._dedup_save_plans(plans)
        return deduped
