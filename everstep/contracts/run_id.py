"""Run ids are execution names: SageMaker's job-name pattern, short enough for every suffix."""

import hashlib
import re

from everstep.contracts.problems import Problem
from everstep.contracts.training_spec import RUN_ID_PATTERN

_CONTINUATION = re.compile(r"-c(\d{2,3})$")


def run_id_of(execution_name: str) -> str:
    """``run-c02`` is the second execution of ``run``."""
    return _CONTINUATION.sub("", execution_name)


def next_execution_name(execution_name: str) -> str:
    """``run`` → ``run-c01`` → ``run-c02``: at most 45 characters of Step Functions' 80."""
    match = _CONTINUATION.search(execution_name)
    number = int(match[1]) + 1 if match else 1
    return f"{run_id_of(execution_name)}-c{number:02d}"


def adoption_name(job_arn: str) -> str:
    """The execution, and run, that takes a foreign job over: one a job, whoever asks, however
    often."""
    return f"adopt-{hashlib.sha256(job_arn.encode()).hexdigest()[:12]}"


def problem_of_run_id(execution_name: str) -> list[Problem]:
    run_id = run_id_of(execution_name)
    if len(run_id) <= 40 and re.fullmatch(RUN_ID_PATTERN, run_id):
        return []
    return [
        Problem(
            path="execution name",
            value=execution_name,
            message="is not a run id",
            hint="letters and digits, hyphens between them, at most 40 characters",
        )
    ]
