"""Where a run's report lies."""

from everstep.contracts.records import Run
from everstep.policy.job_request import output_uri


def report_uri(run: Run) -> str:
    return f"{output_uri(run)}/report.html"
