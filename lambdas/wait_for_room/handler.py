"""WaitForRoom: leave the token where the watchdog finds it. However long: two history events."""

from everstep.contracts.payloads import TokenStep
from everstep.contracts.records import RunStatus, Waiting
from lambdas.aws.services import Services, state_handler


def act(step: TokenStep, services: Services) -> None:
    run = services.store.run(step.run_id)
    waiting = Waiting(
        reason=step.message or "no room",
        task_token=step.task_token,
        since_epoch=run.waiting.since_epoch if run.waiting else services.clock(),
        hold_seconds=step.hold_seconds,
        step=step.model_dump(mode="json", exclude={"task_token", "hold_seconds"}),
    )
    if run.waiting is None:
        services.notifier.send(run, "wait", f"waits: {waiting.reason}", None)
    services.store.update(run, waiting=waiting, status=RunStatus.WAITING, active=True)


handler = state_handler(TokenStep, act)
