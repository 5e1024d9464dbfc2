"""A run with three failures, on the emulator: the report that the control plane writes at its end,
the one that the command line makes, the records, and a browser say the same."""

import html
import json
import subprocess
import sys
from pathlib import Path

import pytest

from everstep.contracts.records import job_name
from everstep.policy.job_request import report_uri
from everstep.report.figures import Report
from tests.report import browser
from tests.scenarios.lab import ROOT, Lab

pytestmark = pytest.mark.scenario
RUN = "three-failures"


def everstep(lab: Lab, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "everstep.cli.main", *arguments],
        cwd=ROOT,
        env={**lab.environ, "EVERSTEP_ENV": "local"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_report_of_a_run_with_three_failures(lab: Lab, tmp_path: Path) -> None:
    arn = lab.start(RUN, lab.foreign(steps=80, step_seconds=0.1))
    for launch, step in ((1, 12), (2, 27), (3, 43)):
        lab.at_step(RUN, launch, step)
        lab.control.kill_host(job_name(RUN, launch), "algo-2")
    assert lab.end(arn)["status"] == "SUCCEEDED"

    found = Report.model_validate_json(everstep(lab, "report", RUN, "--json"))
    view = lab.view(RUN)
    assert [x.failure for x in found.attempts] == [x.failure for x in view.launches]
    assert (found.failures, len(found.attempts), found.step) == (3, 4, 80)
    assert found.goodput == view.goodput
    assert {p.step: p.loss for p in found.curve.points} == view.losses
    assert [r.step for r in found.curve.resumes] == [x.resume_step for x in view.launches[1:]]
    assert sum(len(stretch) for stretch in found.curve.again) == view.goodput.steps_lost > 0
    stopped = lab.execution(arn)["stopDate"].timestamp()
    assert found.total_seconds == pytest.approx(stopped - view.run.created_epoch, abs=0.002)
    assert found.waterfall["useful"] == pytest.approx(view.goodput.useful_seconds, rel=0.01)
    assert found.waterfall["recomputed"] > 0
    assert found.waterfall["restart"] > 0

    uri = report_uri(view.run)
    written = lab.until(lambda: _there(lab, uri), f"the report at {uri}")
    made = tmp_path / "made.html"
    everstep(lab, "report", RUN, "--out", str(made))
    assert _lasting(written) == _lasting(made.read_text())
    for x in view.launches[:3]:
        assert x.failure is not None
        assert html.escape(x.failure.cause, quote=False) in written

    if why := browser.lacking():
        # make test installs it; a newcomer's own pytest may lack it
        pytest.skip(f"all but the browser was looked at: {why}")
    page = tmp_path / "written.html"
    page.write_text(written, encoding="utf-8")
    looks = [
        {"file": str(page), "width": width, "height": height}
        for width, height in ((360, 740), (1440, 900))
    ]
    for seen in browser.look(looks, tmp_path):
        assert (seen["said"], seen["requests"], seen["outside"]) == ([], [], [])
        assert seen["figures"]["failures"] == "3"
        assert seen["figures"]["goodput"] == f"{100 * found.goodput_ratio:.1f} %"
        assert seen["charts"]["loss"]["data"][1] == [p.loss for p in found.curve.points]


def _there(lab: Lab, uri: str) -> str | None:
    """None until it is written: the run's end does not wait for it."""
    s3 = lab.cloud.client("s3")
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    found = s3.list_objects_v2(Bucket=bucket, Prefix=key)
    return lab.object(uri) if found["KeyCount"] else None


def _lasting(text: str) -> list[str]:
    """All that does not say when it was written: the figures, the curve."""
    curve = text.partition('id="curve">')[2].partition("</script>")[0]
    body = text.partition("<main>")[2].partition("</main>")[0]
    assert json.loads(curve)["points"]
    return [curve, body]
