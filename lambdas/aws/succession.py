"""A run moves from one execution to the next one: see ``lambdas/continue_as_new``."""

from everstep.contracts.records import Launch, Run
from lambdas.aws.store import Store


def take_over(run: Run, successor: str, store: Store) -> list[Launch]:
    """Run and running launch belong to the successor from now on; the run's launches. Done by both
    executions, whichever is first: the second one changes nothing. The launch moves before the run,
    because a run that has moved is not moved again."""
    launches = store.launches(run.run_id)
    if run.execution_arn == successor:
        return launches
    for launch in launches[-1:]:
        if launch.outcome is None:
            store.update(
                launch,
                equal={"execution_arn": run.execution_arn},
                execution_arn=successor,
                inspections=0,
            )
    store.update(
        run, equal={"execution_arn": run.execution_arn}, execution_arn=successor, redrive_count=0
    )
    return launches
