"""What holds for every room's tests."""

import os
from pathlib import PurePath
from typing import Any

import pytest
from hypothesis import settings

# torch's threads wait for each other by spinning: the tiny models here take ten times the CPU
# time with two; what a test starts inherits it, as what the launcher starts does
os.environ.setdefault("OMP_NUM_THREADS", "1")

# how long an example takes is the machine's matter: it is shared, and a slow second is no defect
settings.register_profile("everstep", deadline=None)
settings.load_profile("everstep")

TOGETHER = ("docs", "emulator", "scenarios", "stacks")
"""Folders whose files share an emulator, a deployment, a synthesis."""
ALONE = ("test_change.py", "test_demo.py")
"""Files there that have their own."""


def place(path: PurePath) -> str:
    """What one worker takes whole, and in its order: a file's tests, or all of such a folder."""
    together = path.parent.name in TOGETHER and path.name not in ALONE
    return path.parent.name if together else f"{path.parent.name}/{path.name}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``--dist loadscope`` by place. (``loadgroup`` writes its groups into the tests' ids, which
    pytest 9.2 lets nobody do: pytest-xdist 3.8 then splits them without a word.)"""
    from xdist.scheduler import LoadScopeScheduling

    class ByPlace(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return place(PurePath(nodeid.partition("::")[0]))

    return ByPlace(config, log) if config.getvalue("dist") == "loadscope" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest as one piece begins first."""
    first = ("scenarios", *TOGETHER)
    order = {folder: i for i, folder in reversed([*enumerate(first)])}
    items.sort(key=lambda item: order.get(item.path.parent.name, len(first)))
