"""``everstep watch``: one run on one screen until it ends. Looks only; the run is left alone."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.live import Live

from everstep.cli import executions
from everstep.cli.cloud import Cloud, default_env, passes
from everstep.cli.errors import INTERRUPTED, NOT_ARRIVED, NOT_FOUND, OK, fail
from everstep.cli.options import Env, Json, RunId, checked
from everstep.cli.output import say
from everstep.cli.patience import asked
from everstep.cli.prices import prices
from everstep.cli.saved import committed_step
from everstep.cli.watch_draw import Teller, screen
from everstep.cli.watch_model import Picture, Reading, committed, picture, reading, without_row
from everstep.contracts.records import RunStatus

EVERY_SECONDS = 3.0
LONGEST_PAUSE = 60.0
TRIES, READ_SECONDS = 2, 15.0
"""Of one question: the next look asks again anyway."""
SLOW_SECONDS = 5.0
"""An answer that takes longer is waited for aloud."""
PAST_SECONDS = 1800.0
"""How far back the log is read at first: a month of lines is not."""
OVERLAP_SECONDS = 10.0
MOST_READINGS = 20_000
PROGRESS = '"everstep"'


def watch(
    run_id: RunId,
    every: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds between two looks.")
    ] = EVERY_SECONDS,
    env: Env = None,
    as_json: Json = False,
) -> None:
    """One run on one screen until it ends; lines in a pipe; with --json an object a change.
    Exit 0 if it arrived, 1 if not. Ctrl-C ends the watching, not the run."""
    run_id = checked(run_id)
    console = Console(highlight=False, emoji=False)
    drawn = console.is_terminal and not console.is_dumb_terminal and not as_json
    live = Live(console=console, auto_refresh=False) if drawn else None
    show = _shower(live, console, as_json)
    last: Picture | None = None
    try:
        with live or nullcontext():
            cloud = Cloud(env or default_env(), tries=TRIES, read_timeout=READ_SECONDS)
            for last in looks(Watcher(cloud, run_id), every, time.sleep):
                show(last)
    except KeyboardInterrupt:
        say(
            f"no longer watched; run {run_id} goes on. `everstep watch {run_id}` looks again, "
            f"`everstep stop {run_id}` ends it"
        )
        raise typer.Exit(INTERRUPTED) from None
    arrived = last is not None and last.status == RunStatus.DONE
    if last is not None and last.note and not arrived:
        say(last.note)
    raise typer.Exit(OK if arrived else NOT_ARRIVED)


class Watcher:
    """What is known of a run between two looks: of the log only what is new is read."""

    def __init__(self, cloud: Cloud, run_id: str) -> None:
        self._cloud, self._run_id = cloud, run_id
        self._prices = prices(cloud.env)
        self._readings: dict[str, Reading] = {}
        """By the log event's id: a line that is read twice is one."""
        self._since: dict[str, float] = {}
        self._saved = 0

    def look(self) -> Picture:
        """Raises what botocore raises, and ``CliError`` where there is no such run."""
        cloud, run_id = self._cloud, self._run_id
        run, now = cloud.find_run(run_id), cloud.clock()
        execution = (
            executions.describe(cloud, run.execution_arn) if run else executions.find(cloud, run_id)
        )
        if run is None:
            if execution is None:
                fail(
                    f"there is no run {run_id!r} in environment {cloud.env!r}",
                    "`everstep list` shows those there are",
                    NOT_FOUND,
                )
            return without_row(run_id, execution.status, execution.cause, now)
        launches = cloud.launches(run_id)
        if launches:
            if launches[-1].job_name not in self._since:
                self._saved = committed_step(cloud, run, launches)
            self._read(launches[-1].job_name, now)
        return picture(
            run,
            launches,
            cloud.exports(run_id),
            list(self._readings.values()),
            saved=self._saved,
            execution=execution.status if execution else "history gone",
            prices_usd=self._prices,
            now=now,
        )

    def _read(self, job: str, now: float) -> None:
        since = self._since.get(job, now - PAST_SECONDS)
        for event in self._cloud.log_events(job, since, PROGRESS):
            since = max(since, event.time - OVERLAP_SECONDS)
            if found := reading(event.time, event.text):
                self._readings.setdefault(event.id, found)
            elif step := committed(event.text):
                self._saved = max(self._saved, step)
        self._since[job] = since
        for key in list(self._readings)[:-MOST_READINGS]:
            del self._readings[key]


def looks(
    watcher: Watcher,
    every: float,
    sleep: Callable[[float], object],
    clock: Callable[[], float] = time.time,
    slow: float = SLOW_SECONDS,
) -> Iterator[Picture]:
    """Until the run has ended. What AWS or the network refuses for a while is shown, and waited
    for, as is an answer that does not come; what is refused at the first look, or for good
    (credentials), is raised."""
    good: Picture | None = None
    pause = every
    while good is None or not good.ended:
        if good is not None:
            sleep(pause)
        try:
            for found in asked(watcher.look, slow):
                if found is not None:
                    good, pause = found, every
                    yield found
                elif good is None:
                    say("no answer yet: still asked; Ctrl-C ends it")
                else:
                    yield _without_answer(good, clock(), "still asked")
        except (ClientError, BotoCoreError) as error:
            if good is None or not passes(error):
                raise
            pause = min(LONGEST_PAUSE, pause * 2)
            yield _without_answer(good, clock(), f"asked again in {pause:.0f} s: {error}")


def _without_answer(good: Picture, now: float, words: str) -> Picture:
    """What was last known, at the time that it is."""
    since = f"{datetime.fromtimestamp(good.now, UTC):%H:%M:%S} UTC"
    trouble = f"no answer since {since}, what is shown is of then; {words}"
    return good.model_copy(update={"trouble": " ".join(trouble.split()), "now": now})


def _shower(live: Live | None, console: Console, as_json: bool) -> Callable[[Picture], None]:
    teller, before = Teller(), dict[str, Any]()

    def draw(p: Picture) -> None:
        assert live is not None
        width, height = console.size
        ascii_only = console.options.ascii_only
        live.update(screen(p, width, height, ascii_only=ascii_only), refresh=True)

    def tell(p: Picture) -> None:
        for line in teller.lines(p):
            print(line, flush=True)

    def emit(p: Picture) -> None:
        nonlocal before
        after = p.model_dump(mode="json")
        timeless = {k: v for k, v in after.items() if k not in ("now", "eta_seconds", "spent")}
        if timeless != before:
            before = timeless
            print(json.dumps(after | {"share": p.share}), flush=True)

    return emit if as_json else tell if live is None else draw
