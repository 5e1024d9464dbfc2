"""The commands as a researcher and as a viewer: what they ask AWS is in their roles, and no more.

Each call is judged by the role's deployed policies and boundary before it is made. Keys are not:
tests/stacks/test_access.py has them.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner, Result

from emulator.access import evaluate, statements_of
from emulator.access_needs import Need, needs_of
from everstep.cli.cloud import Cloud
from everstep.cli.errors import CliError
from everstep.cli.main import app
from everstep.cli.refusal import explained
from tests.scenarios.lab import Lab

pytestmark = pytest.mark.scenario
TEAM = "research"


class Person:
    """Somebody whose every call is judged first; ``denied``: what was not allowed."""

    def __init__(self, lab: Lab, role: str) -> None:
        name = f"everstep-local-person-{role}"
        iam = lab.cloud.client("iam")
        bound = iam.get_role(RoleName=name)["Role"]["PermissionsBoundary"]["PermissionsBoundaryArn"]
        version = iam.get_policy(PolicyArn=bound)["Policy"]["DefaultVersionId"]
        answer = iam.get_policy_version(PolicyArn=bound, VersionId=version)
        inline = [
            iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
            for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]
        ]
        assert inline
        self._documents = [
            statements_of(json.loads(json.dumps(some).replace("${aws:PrincipalTag/team}", TEAM)))
            for some in (inline, [answer["PolicyVersion"]["Document"]])
        ]
        self.denied: set[str] = set()
        self.asked: set[str] = set()

    def judge(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        for need in needs_of(model.service_model.service_name, model.name, params):
            self.asked.add(need.action)
            if not all(self._allowed(statements, need) for statements in self._documents):
                self.denied.add(need.action)
                error = {"Code": "AccessDeniedException", "Message": f"may not {need.action}"}
                raise ClientError({"Error": error}, model.name)

    def _allowed(self, statements: list[dict[str, Any]], need: Need) -> bool:
        # All that this deployment has is the team's: the emulator has one team.
        context = {**need.context, "aws:ResourceTag/everstep:team": TEAM}
        return evaluate(statements, need.action, need.resource, context).allowed


@pytest.fixture
def person(lab: Lab, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Person:
    found = Person(lab, request.param)
    plain = Cloud._client

    def judged(self: Cloud, service: str) -> Any:
        client = plain(self, service)
        client.meta.events.register("provide-client-params.*.*", found.judge)
        return client

    monkeypatch.setattr(Cloud, "_client", judged)
    for name, value in lab.environ.items():
        monkeypatch.setenv(name, value)
    return found


def everstep(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, (arguments, done.output, done.exception)
    return done


@pytest.mark.parametrize("person", ["researcher"], indirect=True)
def test_a_researcher_needs_nobody(lab: Lab, person: Person, tmp_path: Path) -> None:
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(lab.foreign(steps=20, FOREIGN_BUG_AT="12")))
    everstep("run", str(file), "--name", "ours", "--wait", code=1)
    everstep("watch", "ours", code=1)
    assert "ours" in everstep("list").stdout
    everstep("status", "ours")
    everstep("logs", "ours")
    assert "KeyError" in everstep("logs", "ours", "--first-cause").stdout
    everstep("report", "ours", "--out", str(tmp_path / "r.html"))
    run = lab.cloud.run("ours")
    lab.put(f"{run.team.checkpoint_uri}/ours/mended", "yes")
    everstep("retry", "ours", "--wait")
    everstep("resume", "ours", "--from", "5", "--set", "stop.steps=30")
    everstep("clone", "ours", "ours-again", "--weights")
    everstep("stop", "ours-again")
    everstep("stop", "ours-from-5")
    assert person.denied == set()
    assert {"s3:ListBucket", "s3:GetObject", "states:RedriveExecution"} <= person.asked


@pytest.mark.parametrize("person", ["viewer"], indirect=True)
def test_a_viewer_looks_and_changes_nothing(lab: Lab, person: Person, tmp_path: Path) -> None:
    arn = lab.start("seen", lab.foreign(steps=10))
    lab.end(arn)
    everstep("watch", "seen")
    everstep("list")
    everstep("status", "seen")
    everstep("logs", "seen")
    everstep("report", "seen", "--out", str(tmp_path / "r.html"))
    assert person.denied <= {"s3:ListBucket"}  # checkpoints are the team's
    lab.start("theirs", lab.foreign(steps=200, step_seconds=0.2))
    lab.at_step("theirs", 1, 1)
    done = CliRunner().invoke(app, ["stop", "theirs"])
    assert isinstance(done.exception, ClientError)
    told = explained(done.exception)
    assert isinstance(told, CliError)
    assert "role" in told.hint
    assert lab.status_of("theirs") == "running"
    lab.cloud.client("stepfunctions").stop_execution(
        executionArn=lab.cloud.run("theirs").execution_arn
    )
