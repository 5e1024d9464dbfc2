"""One emulator for chaos, apart from the scenarios': its quotas let many runs be at once."""

from collections.abc import Iterator

import pytest

from tests.chaos.seeds import ENV, QUOTAS, STOP_SECONDS
from tests.scenarios.lab import Lab, deployed


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with deployed(tmp_path_factory.mktemp("chaos"), QUOTAS, ENV) as made:
        made.control.settings(stop_seconds=STOP_SECONDS)
        yield made
