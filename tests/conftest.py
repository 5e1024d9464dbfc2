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

SHARED = ("chaos", "emulator", "report", "scenarios", "stacks")
"""Folders whose tests share what is dear to make: an emulator, a deployment, a synthesis."""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With ``--dist loadgroup`` one worker takes such a folder; elsewhere it takes a file."""
    for item in items:
        folder = item.path.parent.name
        item.add_marker(pytest.mark.xdist_group(folder if folder in SHARED else item.path.stem))
