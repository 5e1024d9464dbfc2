"""A run's images by digest: looked up before its first job, kept for all of them."""

from typing import Any

from everstep.contracts.failures import Failure
from everstep.contracts.payloads import State, Step
from everstep.contracts.records import PinnedImage, Run
from everstep.policy.images import (
    NotYet,
    absent,
    judge,
    lookup,
    names_of,
    unknown_repository,
    waited_too_long,
)
from lambdas.aws.registry import NoRepository
from lambdas.aws.room import seconds_left
from lambdas.aws.services import Services, logger


def blocked(run: Run, step: Step, services: Services) -> dict[str, Any] | None:
    """None once the run's row holds its images; else the payload that waits, or gives up."""
    if run.images is not None or run.adopted is not None:
        return None
    images: dict[str, PinnedImage] = {}
    for name in names_of(run.spec):
        answer = look(name, run, services)
        left = seconds_left(run, services.clock())
        if isinstance(answer, NotYet) and left > 0:
            return step.to(
                State.WAIT_FOR_ROOM,
                image=name,
                message=answer.reason,
                wait_seconds=left,
                hold_seconds=0,
            )
        if isinstance(answer, NotYet):
            answer = waited_too_long(answer.reason)
        if isinstance(answer, Failure):
            services.store.update(run, failure=answer)
            return step.to(State.GIVE_UP)
        if answer is not None:
            images[name] = answer
            if answer.critical_findings:
                logger.warning("critical findings", image=name, **answer.model_dump())
    # The first of two invocations wins: a tag may have moved between them.
    services.store.update(run, images=images, absent=["images"])
    return None


def look(name: str, run: Run, services: Services) -> PinnedImage | NotYet | Failure | None:
    """None: an image of another registry."""
    wanted = lookup(name, run.team)
    if wanted is None:
        return None
    registry = services.registry
    try:
        found = registry.find(wanted)
        if found is not None:
            return judge(name, wanted, found, services.env.critical_findings == "refuse")
        build = None if wanted.digest else registry.build_of(wanted)
        return absent(name, wanted, build, registry.tags(wanted))
    except NoRepository:
        return unknown_repository(name, wanted)


def is_there(name: str, run: Run, services: Services) -> bool:
    """For the watchdog: there is an answer, good or bad, so the run need wait no longer."""
    return not isinstance(look(name, run, services), NotYet)
