"""One emulator, deployed once with the real CDK command line, for every scenario."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.lab import QUOTA, QUOTA_VALUE, Lab, deployed

pytestmark = pytest.mark.scenario


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with deployed(tmp_path_factory.mktemp("aws"), {QUOTA: QUOTA_VALUE}) as lab:
        yield lab


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
