"""One emulator, deployed once with the real CDK command line, for every scenario."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator import service
from emulator.control import Control
from everstep.cli.local import MINUTE, populate
from tests.scenarios.lab import QUOTA, QUOTA_VALUE, Lab

pytestmark = pytest.mark.scenario


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    work = tmp_path_factory.mktemp("aws")
    endpoint = service.start(work, minute=MINUTE, with_parent=True)
    try:
        environ = {**os.environ, **endpoint.environment}
        cloud = populate(environ, endpoint.endpoint, work, print)
        control = Control(endpoint.endpoint)
        control.quota(QUOTA, QUOTA_VALUE)
        yield Lab(cloud, control, environ, work)
    finally:
        service.stop(work)


@pytest.fixture(autouse=True)
def no_faults_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A scenario's faults end with it."""
    yield
    if "lab" in request.fixturenames:
        request.getfixturevalue("lab").reset()


@pytest.fixture(scope="session")
def tiny() -> dict[str, object]:
    """The spec that users run first."""
    path = Path(__file__).parents[2] / "examples" / "tiny.json"
    return dict(json.loads(path.read_text()))
