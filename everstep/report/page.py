"""The report as one HTML file: it asks nobody for anything, and its policy forbids that it does."""

import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

from everstep.report import charts, sections, words
from everstep.report.elements import Element, data, document, h, raw
from everstep.report.figures import Report


def page(report: Report) -> str:
    """The whole file."""
    style = _asset("uPlot.min.css") + _asset("page.css")
    licence = f"/*\n{_asset('uPlot-LICENSE.txt')}*/\n"
    scripts = [licence + _asset("uPlot.iife.min.js"), _asset("page.js")]
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src {_hash(style)}; script-src {' '.join(map(_hash, scripts))}"
    )
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", http_equiv="Content-Security-Policy", content=policy),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("meta", name="color-scheme", content="light dark"),
        h("meta", name="generator", content=f"Everstep {report.environment['Everstep']}"),
        h("title", f"{report.run_id}: {report.headline}"),
        h("link", rel="icon", href="data:,"),
        raw("style", style),
    )
    body = h(
        "body",
        h(
            "main",
            sections.top(report),
            charts.time(report),
            charts.curves(report),
            charts.timeline(report),
            sections.failures(report),
            sections.cost(report),
            sections.background(report),
        ),
        _footer(report),
        data(json.loads(report.curve.model_dump_json()), "curve"),
        [raw("script", script) for script in scripts],
    )
    return document(h("html", head, body, lang="en"))


def _footer(report: Report) -> Element:
    return h(
        "footer",
        f"Written {words.clock(report.written_epoch)} from the runs table and the job logs. "
        "Again at any time: ",
        h("code", f"everstep report {report.run_id}"),
        "; the same figures for a program: ",
        h("code", f"everstep report {report.run_id} --json"),
        ".",
    )


@cache
def _asset(name: str) -> str:
    return (files("everstep.report") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
