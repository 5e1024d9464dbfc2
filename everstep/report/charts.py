"""Sections that draw: where the time went, loss and throughput, attempts on one axis."""

from collections.abc import Sequence

from everstep.report import words
from everstep.report.blocks import WIDTH, section, table, unit
from everstep.report.elements import Element, h
from everstep.report.figures import Attempt, Point, Report
from everstep.report.waterfall import Part, Span

ROWS = 24
"""Of a table that stands for a chart."""
_NAMES = {Part.USEFUL: "Steps"}
"""On the axis of attempts, where useful and recomputed steps are not told apart."""


def time(report: Report) -> Element:
    """The waterfall: each part begins where the one before ended."""
    total = report.total_seconds or 1.0
    rows, at = [], 0.0
    for part in Part:
        length = report.waterfall[part]
        if not length:
            continue
        name, meaning = words.PARTS[part]
        bar = h(
            "svg",
            h(
                "rect",
                x=unit(at / total),
                width=unit(length / total),
                height=10,
                class_=f"part-{part}",
            ),
            viewBox=f"0 0 {WIDTH} 10",
            preserveAspectRatio="none",
            aria_hidden="true",
        )
        told = f"{words.seconds(length)}, {words.share(length / total)}"
        rows.append(
            h(
                "li",
                h("span", name, class_="name"),
                bar,
                h("span", told, class_="told", data_figure=f"part-{part}"),
                h("span", meaning, class_="quiet meaning"),
            )
        )
        at += length
    return section(
        "Where the time went",
        h("ol", rows, class_="waterfall"),
        h(
            "p",
            f"Together {words.seconds(report.total_seconds)}, every second in one part. "
            "Goodput is measured against the time paid for, which holds no waiting.",
            class_="quiet",
        ),
    )


def curves(report: Report) -> Element:
    curve = report.curve
    if not curve.points:
        return section("Loss and throughput", h("p", "No step was told.", class_="quiet"))
    told: list[Point] = [p for p in curve.points if p.loss is not None]
    summary = f"Loss over {curve.unit}"
    if told:
        summary += f": from {words.loss(told[0].loss)} to {words.loss(told[-1].loss)}"
    summary += f", {len(curve.resumes)} resumes from a checkpoint"
    rates = [p.tokens_per_s for p in curve.points if p.tokens_per_s is not None]
    middle = sorted(rates)[len(rates) // 2] if rates else None
    speed = f"Tokens a second over {curve.unit}, median {words.count(middle)}"
    resumed = [
        h("li", f"launch {r.launch} at step {r.step:,}, {words.count(r.x)} {curve.unit}")
        for r in curve.resumes
    ]
    return section(
        "Loss and throughput",
        h("div", class_="chart", data_chart="loss", role="img", aria_label=summary),
        h("div", class_="chart", data_chart="rate", role="img", aria_label=speed)
        if rates
        else h("p", "The trainer told no tokens_per_s.", class_="quiet"),
        h(
            "p",
            "Drag to look closer, double-click for all. Dashed lines: resumed from a checkpoint.",
            class_="quiet screen",
        ),
        h("p", "Resumed from a checkpoint: ") if resumed else None,
        h("ul", resumed) if resumed else None,
        h(
            "p",
            f"No finite loss at step {', '.join(map(str, curve.not_finite))}.",
        )
        if curve.not_finite
        else None,
        h("details", h("summary", "The curve as a table"), _curve_table(report)),
    )


def _curve_table(report: Report) -> Element:
    points = report.curve.points
    every = max(1, -(-len(points) // ROWS))
    shown = [*points[:-1:every], points[-1]]
    rows = [
        (
            f"{p.step:,}",
            words.count(p.x),
            words.loss(p.loss),
            words.count(p.tokens_per_s),
        )
        for p in shown
    ]
    return table(("step", report.curve.unit, "loss", "tokens/s"), rows)


def timeline(report: Report) -> Element:
    """One bar an attempt, on one axis."""
    begin, total = report.created_epoch, report.total_seconds or 1.0
    by_launch: dict[int, list[Span]] = {}
    gap: list[Span] = []  # drawn before the launch that it led to
    for span in report.spans:
        if span.launch is None:
            gap.append(span)
        else:
            by_launch.setdefault(span.launch, []).extend([*gap, span])
            gap = []
    bars = []
    for x in report.attempts:
        own = by_launch.get(x.launch, [])
        cells = [
            h(
                "rect",
                h("title", f"{_named(span)}: {words.seconds(span.end - span.begin)}"),
                x=unit((span.begin - begin) / total),
                width=max(unit((span.end - span.begin) / total), 1.5),
                height=10,
                class_=f"part-{_kind(span)}",
            )
            for span in own
        ]
        svg = h(
            "svg",
            cells,
            viewBox=f"0 0 {WIDTH} 10",
            preserveAspectRatio="none",
            role="img",
            aria_label=_said(x, own),
        )
        bars.append(h("li", h("span", f"{x.launch}", class_="name"), svg, _states(x)))
    legend = [
        h("li", h("i", class_=f"key part-{part}"), _NAMES.get(part) or words.PARTS[part][0])
        for part in Part
        if any(_kind(s) == part for own in by_launch.values() for s in own)
    ]
    return section(
        "Attempts",
        h("ul", legend, class_="legend", aria_label="Colours"),
        h("ol", bars, class_="gantt"),
        h(
            "p",
            f"From {words.clock(begin)} to {words.clock(report.ended_epoch)}; what came between "
            "two launches is on the later one's line.",
            class_="quiet",
        ),
    )


def _kind(span: Span) -> Part:
    return Part.USEFUL if span.training else next(iter(span.parts))


def _named(span: Span) -> str:
    kind = _kind(span)
    return (_NAMES.get(kind) or words.PARTS[kind][0]).lower()


def _said(x: Attempt, own: Sequence[Span]) -> str:
    parts = ", ".join(f"{_named(s)} {words.seconds(s.end - s.begin)}" for s in own)
    return f"Launch {x.launch}: {parts or 'no time'}"


def _states(x: Attempt) -> Element:
    reached = "no step" if x.last_step is None else f"steps {x.resume_step:,} to {x.last_step:,}"
    ended = x.failure.failure_class if x.failure else x.outcome or "not over"
    return h("span", f"{reached}, {ended}; {x.where}", class_="quiet")
