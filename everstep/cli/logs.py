"""``everstep logs``: what a launch said, where it first went wrong, and what it says now."""

import json
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from everstep.cli.cloud import Cloud, LogEvent, passes
from everstep.cli.errors import NOT_FOUND, fail
from everstep.cli.first_cause import AROUND, find_cause
from everstep.cli.options import Env, Json, RunId, checked, cloud_of
from everstep.cli.output import say, tame
from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.records import Launch

FOLLOW_SECONDS = 2.0
AWAY_SECONDS = 10.0
OVERLAP_SECONDS = 30.0
"""Lines of other hosts may arrive later than their time says: looked at again, shown once."""


def logs(
    run_id: RunId,
    launch: Annotated[int | None, typer.Option(help="Launch number; the newest if absent.")] = None,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Instead: the attempt, launches for nothing left out.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Only this host, e.g. algo-1.")] = None,
    rank: Annotated[int | None, typer.Option(min=0, help="Only the host of this rank.")] = None,
    first_cause: Annotated[
        bool,
        typer.Option("--first-cause", help="The line that the failure was classified by, its host "
        "and the lines around it. Without --launch: of the newest launch that failed."),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is logged from now on.")
    ] = False,
    env: Env = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """The log of one launch, all hosts in order of time."""
    run_id = checked(run_id)
    given = {"--launch": launch, "--attempt": attempt}
    _one_of({"--host": host, "--rank": rank})
    _one_of(given)
    if first_cause and follow:
        fail("both --first-cause and --follow were given", "give one of them")
    cloud = cloud_of(env)
    chosen = _chosen(cloud, run_id, launch, attempt, failed=first_cause)
    where = host if rank is None else _host_of(chosen, rank)
    if first_cause:
        _first_cause(cloud, chosen, where, as_json)
        return
    if follow:
        _follow(cloud, chosen, where, as_json, alone=any(x is not None for x in given.values()))
        return
    events = cloud.log_events(chosen.job_name)
    mine = [e for e in events if _of_host(e, where)]
    if not mine:
        hosts = ", ".join(sorted({_short(e.host) for e in events}))
        fail(
            f"launch {chosen.launch} of run {run_id!r} has no log"
            + (f" of host {where!r}" if where else ""),
            f"hosts with one: {hosts}" if hosts else "its job may not have started yet",
            NOT_FOUND,
        )
    for event in mine:
        _print(event, as_json)


def _one_of(given: Mapping[str, object]) -> None:
    if all(value is not None for value in given.values()):
        fail(f"both {' and '.join(given)} were given", "give one of them")


def _chosen(
    cloud: Cloud, run_id: str, launch: int | None, attempt: int | None, *, failed: bool
) -> Launch:
    launches = cloud.launches(run_id)
    if not launches:
        if cloud.run(run_id).ended:
            fail(f"run {run_id!r} had no launch", f"`everstep status {run_id}` says why", NOT_FOUND)
        fail(f"run {run_id!r} has no launch yet", "wait for LaunchAttempt", NOT_FOUND)
    if attempt is not None:
        spent = [x for x in launches if x.spent_attempt]
        if attempt > len(spent):
            span = f"1 to {len(spent)}" if spent else "no launch was one yet: --launch"
            fail(f"run {run_id!r} has no attempt {attempt}", span, NOT_FOUND)
        return spent[attempt - 1]
    if launch is not None:
        found = next((x for x in launches if x.launch == launch), None)
        if found is None:
            span = f"{launches[0].launch} to {launches[-1].launch}"
            fail(f"run {run_id!r} has no launch {launch}", span, NOT_FOUND)
        return found
    if failed:
        return next((x for x in reversed(launches) if x.failure), launches[-1])
    return launches[-1]


def _host_of(launch: Launch, rank: int) -> str:
    """SageMaker calls the hosts algo-1, algo-2, …; ranks are numbered through them."""
    kind = INSTANCE_TYPES.get(launch.instance_type)
    each = kind.processes if kind else 1
    if rank >= launch.nodes * each:
        fail(
            f"launch {launch.launch} has no rank {rank}",
            f"0 to {launch.nodes * each - 1}: {launch.nodes} × {launch.instance_type}",
            NOT_FOUND,
        )
    return f"algo-{rank // each + 1}"


def _first_cause(cloud: Cloud, launch: Launch, host: str | None, as_json: bool) -> None:
    failure = launch.failure
    if failure is None:
        fail(
            f"launch {launch.launch} of run {launch.run_id!r} has not failed, or is not classified",
            "`everstep status` shows where it is",
            NOT_FOUND,
        )
    events = [e for e in cloud.log_events(launch.job_name) if _of_host(e, host)]
    at = find_cause(failure, events)
    if as_json:
        found = None if at is None else events[at]
        around = [] if found is None else _around(events, found)
        print(
            json.dumps(
                {
                    "launch": launch.launch,
                    "class": failure.failure_class,
                    "cause": failure.cause,
                    "rank": failure.rank,
                    "step": failure.step,
                    "time": found.time if found else failure.time_epoch,
                    "host": _short(found.host) if found else None,
                    "rule": failure.rule,
                    "confidence": failure.confidence,
                    "lines": [{"time": e.time, "text": e.text} for e in around],
                }
            )
        )
        return
    words = [f"launch {launch.launch}: {failure.failure_class}"]
    words += [f"rank {failure.rank}"] if failure.rank is not None else []
    words += [f"step {failure.step}"] if failure.step is not None else []
    when = events[at].time if at is not None else failure.time_epoch
    words += [f"{datetime.fromtimestamp(when, UTC):%Y-%m-%d %H:%M:%S} UTC"] if when else []
    print(", ".join(words))
    print(f"cause: {tame(failure.cause)}")
    if at is None:
        say(
            f"that line is not in the log (rule {failure.rule}): it is the service's own reason, "
            "the failure file's, or Everstep's"
        )
        return
    for event in _around(events, events[at]):
        mark = ">" if event is events[at] else " "
        print(f"{mark} {_text(event)}")


def _around(events: list[LogEvent], cause: LogEvent) -> list[LogEvent]:
    """Of the same host: what it said before, and what followed."""
    same = [e for e in events if e.host == cause.host]
    at = same.index(cause)
    return same[max(0, at - AROUND) : at + AROUND + 1]


def _follow(cloud: Cloud, launch: Launch, host: str | None, as_json: bool, *, alone: bool) -> None:
    """To the launch's end where it was named; else on to the next ones, to the run's end."""
    say("following; Ctrl-C ends this, not the run")
    for event in _growing(cloud, launch, alone):
        if _of_host(event, host):
            _print(event, as_json)


def _growing(cloud: Cloud, launch: Launch, alone: bool) -> Iterator[LogEvent]:
    seen: set[str] = set()
    since = 0.0
    while True:
        try:
            # Rows first: what was logged before the end that they show is then read once more.
            run, launches = cloud.run(launch.run_id), cloud.launches(launch.run_id)
            events = cloud.log_events(launch.job_name, since)
        except (ClientError, BotoCoreError) as error:
            if not passes(error):
                raise
            say(f"no answer, tried again: {error}")
            time.sleep(AWAY_SECONDS)
            continue
        row = next(x for x in launches if x.launch == launch.launch)
        newer = next((x for x in launches if x.launch > launch.launch), None)
        for event in events:
            if event.id not in seen:
                seen.add(event.id)
                since = max(since, event.time - OVERLAP_SECONDS)
                yield event
        if row.outcome is not None:
            if alone or (newer is None and run.ended):
                return
            if newer is not None:
                launch, since, seen = newer, 0.0, set()
                say(f"launch {launch.launch}")
                continue
        time.sleep(FOLLOW_SECONDS)


def _of_host(event: LogEvent, host: str | None) -> bool:
    return host is None or event.host == host or event.host.startswith(f"{host}-")


def _short(stream: str) -> str:
    return stream.rsplit("-", 1)[0]


def _text(event: LogEvent) -> str:
    time = f"{datetime.fromtimestamp(event.time, UTC):%H:%M:%S}"
    return f"{time} {_short(event.host)}  {tame(event.text)}"


def _print(event: LogEvent, as_json: bool) -> None:
    if as_json:
        line = {"time": event.time, "host": event.host, "text": event.text}
        print(json.dumps(line), flush=True)
    else:
        print(_text(event), flush=True)
