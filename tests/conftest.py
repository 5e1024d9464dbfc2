"""What holds for every room's tests."""

import os

import pytest
from hypothesis import settings

# torch's threads wait for each other by spinning: the tiny models here take ten times the CPU
# time with two; what a test starts inherits it, as what the launcher starts does
os.environ.setdefault("OMP_NUM_THREADS", "1")

# how long an example takes is the machine's matter: it is shared, and a slow second is no defect
settings.register_profile("everstep", deadline=None)
settings.load_profile("everstep")

SHARED = ("cloud", "lab", "own_lab", "quick_start", "prod", "more")
"""Fixtures that many files of a folder share: an emulator, a deployment, a synthesis."""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With ``--dist loadgroup`` one worker takes all tests of such a fixture, and else of a file,
    in their order."""
    for item in items:
        given = getattr(item, "fixturenames", ())
        shared = next((name for name in SHARED if name in given), item.path.stem)
        item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}-{shared}"))
