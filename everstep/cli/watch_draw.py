"""A ``Picture`` as one screen for a terminal, and as lines for a pipe."""

from collections.abc import Sequence
from datetime import UTC, datetime
from textwrap import wrap

from rich.text import Text

from everstep.cli.output import tame
from everstep.cli.watch_model import Attempt, Picture, thinned

SAY_SECONDS = 30.0
SAY_SHARE = 0.05
"""In a pipe a step is said so often, or when so much of the run is done since."""
_WORD = "{:<7}"
_COLUMNS: tuple[int, ...] = (3, 20, 14, 10, 18)
_COLOURS = {"done": "green", "gave_up": "red", "stopped": "yellow", "refused": "red"}
_COLOURS |= {"running": "cyan", "waiting": "yellow"}


def screen(p: Picture, width: int = 80, height: int = 24, *, ascii_only: bool = False) -> Text:
    """At most ``height`` lines, none wider than ``width``."""
    p = _tamed(p)
    lines = [_title(p, width), _bar(p, width, ascii_only)]
    lines += _row("loss", _loss(p, width - 7, ascii_only), width)
    lines += _row("speed", _speed(p), width)
    lines += _row("state", _state(p), width)
    lines += _row("next", _when(p.next, p.next_at, p.now), width)
    lines += _row("saved", f"step {p.saved_step}" if p.saved_step else "nothing yet", width)
    lines += _row("spent", p.spent, width)
    lines += _row("budget", "; ".join(p.budget), width)
    lines += _row("note", p.note.partition("\n")[0], width)
    lines += _row("do", p.todo, width)
    if p.trouble:
        lines.append(Text(_cut(p.trouble, width), style="bold yellow"))
    room = height - len(lines) - 1
    if p.attempts and room > 2:
        lines += [Text(""), *_history(p.attempts, width, room)]
    return Text("\n").join(lines[:height])


class Teller:
    """The same in a pipe: a line a change, and steps now and then."""

    def __init__(self) -> None:
        self._before: Picture | None = None
        self._step: Picture | None = None

    def lines(self, p: Picture) -> list[str]:
        p = _tamed(p)
        before, self._before = self._before, p
        found = []
        if p.trouble and (before is None or p.trouble != before.trouble):
            found.append(p.trouble)
        elif before is not None and before.trouble and not p.trouble:
            found.append("connected again")
        known = {a.launch: a for a in before.attempts} if before else {}
        found += [_ended(a) for a in p.attempts if a.failure and a != known.get(a.launch)]
        stage = (p.status, p.state, p.doing, p.next)
        if before is None or stage != (before.status, before.state, before.doing, before.next):
            found.append(_plain_state(p))
        if self._say_step(p):
            self._step = p
            found.append(_plain_step(p))
        return [f"{_clock(p.now)} {line}" for line in found]

    def _say_step(self, p: Picture) -> bool:
        said = self._step
        if said is None:
            return p.step > 0
        moved = abs((p.share or 0.0) - (said.share or 0.0))
        return p.step != said.step and (
            p.ended or p.now - said.now >= SAY_SECONDS or moved >= SAY_SHARE
        )


def _tamed(p: Picture) -> Picture:
    """Words that a program, a person or AWS wrote move no cursor."""
    attempts = [a.model_copy(update={"cause": tame(a.cause)}) for a in p.attempts]
    words = {name: tame(getattr(p, name)) for name in ("doing", "next", "note", "todo", "trouble")}
    return p.model_copy(update={"attempts": attempts, **words})


def span(seconds: float) -> str:
    """``42 s``, ``12 min``, ``3.4 h``, ``5.1 days``."""
    if seconds < 90:
        return f"{max(0.0, seconds):.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


def sparkline(values: list[float], width: int, *, ascii_only: bool = False) -> str:
    marks = "_.-=+*#@" if ascii_only else "▁▂▃▄▅▆▇█"
    shown = thinned(values, max(1, width))
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    scale = (len(marks) - 1) / (high - low) if high > low else 0.0
    return "".join(marks[round((v - low) * scale)] for v in shown)


def _title(p: Picture, width: int) -> Text:
    right = f"{p.status}, {p.team}" if p.team else p.status
    left = _cut(f"run {p.run_id}", width - len(right) - 1)
    text = Text(left, style="bold")
    text.append(" " * (width - len(left) - len(right)))
    return text.append(right, style=_COLOURS.get(p.status, ""))


def _bar(p: Picture, width: int, ascii_only: bool) -> Text:
    full, empty = ("#", ".") if ascii_only else ("█", "░")
    if p.share is None:
        return Text(f"step {p.step}")
    words = f" {p.share:6.1%}  step {p.step} of {p.steps}"
    if p.eta_seconds:
        words += f"  {span(p.eta_seconds)} left"
    size = width - len(words)
    if size < 10:  # the figures before the picture
        return Text(_cut(words.strip(), width))
    done = int(p.share * size)
    text = Text(full * done, style="green").append(empty * (size - done), style="dim")
    return text.append(_cut(words, width - size))


def _loss(p: Picture, width: int, ascii_only: bool) -> str:
    if p.loss is None:
        return ""
    figure = f"{p.loss:.4f}  "
    return figure + sparkline(p.losses, width - len(figure), ascii_only=ascii_only)


def _speed(p: Picture) -> str:
    parts = [] if p.tokens_per_s is None else [f"{p.tokens_per_s:,.0f} tokens/s"]
    parts += [] if p.mfu is None else [f"MFU {p.mfu:.1%}"]
    parts += [] if p.step_seconds is None else [f"{p.step_seconds:.3g} s a step"]
    return "   ".join(parts)


def _state(p: Picture) -> str:
    words = f"{p.state}: {p.doing}" if p.doing else p.state
    if p.stepped_at is not None:
        return f"{words}, last step {span(p.now - p.stepped_at)} ago"
    return words if p.since is None else f"{words}, for {span(p.now - p.since)}"


def _when(words: str, at: float | None, now: float) -> str:
    if at is None:
        return words
    left = at - now
    soon = f"in {span(left)}" if left > 0 else "now"
    return f"{words} {soon} ({datetime.fromtimestamp(at, UTC):%d %b %H:%M} UTC)"


def _row(word: str, value: str, width: int) -> list[Text]:
    """A word and its value, on two lines at most."""
    indent = len(_WORD.format(""))
    lines = wrap(value, width - indent)
    if len(lines) > 2:
        lines = [lines[0], _cut(" ".join(lines[1:]), width - indent)]
    words = [word, ""][: len(lines)]
    return [
        Text(_WORD.format(w), style="dim").append(line, style="not dim")
        for w, line in zip(words, lines, strict=True)
    ]


def _history(attempts: list[Attempt], width: int, room: int) -> list[Text]:
    """The newest ones; what stands in no row of theirs is the cause, in a line of its own."""
    head = _line(("no", "where", "steps", "ended", "class", "decision"), width)
    chosen: list[list[Text]] = []
    left = room - 1
    for one in reversed(attempts):
        cells = (str(one.launch), one.where, one.steps, one.ended, one.failure, one.decision)
        rows = [Text(_line(cells, width))]
        if one.cause:
            rows.append(Text(_cut(f"   {one.cause}", width), style="dim"))
        earlier = len(attempts) - len(chosen) - 1
        if len(rows) + bool(earlier) > left:
            break
        left -= len(rows)
        chosen.insert(0, rows)
    hidden = len(attempts) - len(chosen)
    more = [Text(f"   {hidden} earlier", style="dim")] if hidden else []
    return [Text(head, style="bold"), *more, *(row for rows in chosen for row in rows)]


def _line(cells: Sequence[str], width: int) -> str:
    columns = _COLUMNS
    if width < sum(_COLUMNS) + 5:  # what happened before where
        cells, columns = (cells[0], *cells[2:]), (columns[0], *columns[2:])
    fixed = "".join(f"{_cut(c, n - 1):<{n}}" for c, n in zip(cells[:-1], columns, strict=True))
    return _cut(fixed + cells[-1], width).rstrip()


def _cut(text: str, width: int) -> str:
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def _clock(epoch: float) -> str:
    return f"{datetime.fromtimestamp(epoch, UTC):%H:%M:%S}"


def _ended(a: Attempt) -> str:
    decided = f" -> {a.decision}" if a.decision else ""
    return f"launch {a.launch} {a.ended or 'ended'}, {a.failure}: {a.cause}{decided}"


def _plain_state(p: Picture) -> str:
    words = f"{p.status}  {p.state}" + (f": {p.doing}" if p.doing else "")
    if p.next:
        at = "" if p.next_at is None else f" at {datetime.fromtimestamp(p.next_at, UTC):%F %T} UTC"
        words += f"; next: {p.next}{at}"
    reason, _, _ = p.note.partition("\n")
    words += f"; {reason}" if reason and p.ended else ""
    return f"{words}; to do: {p.todo}" if p.todo else words


def _plain_step(p: Picture) -> str:
    words = f"step {p.step}"
    if p.share is not None:
        words += f"/{p.steps} {p.share:.1%}"
    if p.loss is not None:
        words += f"  loss {p.loss:.4f}"
    if speed := _speed(p):
        words += f"  {speed}"
    if p.eta_seconds:
        words += f"  {span(p.eta_seconds)} left"
    return f"{words}  spent {p.spent}" if p.spent else words
