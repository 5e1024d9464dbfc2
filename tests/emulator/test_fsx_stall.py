"""A stalled file system: who opens waits, who has a file open reads on, and it ends."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from emulator.fsx_stall import LIMIT, Stall
from emulator.names import AwsError

pytestmark = pytest.mark.skipif(not LIMIT.exists(), reason="file leases are Linux's")
READ = "import sys; print('begun', flush=True); print(open(sys.argv[1]).read(), flush=True)"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"content of {name}")
    return tmp_path


def reader(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", READ, path], stdout=-1, text=True)
    assert process.stdout
    assert process.stdout.readline() == "begun\n"
    return process


def state(process: subprocess.Popen[str]) -> str:
    """The kernel's letter for it."""
    return Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def said(process: subprocess.Popen[str]) -> str:
    """The next line. ``communicate`` knows nothing of what ``readline`` read ahead."""
    assert process.stdout
    line = process.stdout.readline()
    assert process.wait(30) == 0
    return line


def test_an_open_waits_in_the_kernel_until_the_end(files: Path) -> None:
    stall = Stall(files, 30)
    assert stall.files == 2
    waits = reader(files / "a")
    with pytest.raises(subprocess.TimeoutExpired):
        waits.wait(0.5)
    until = time.monotonic() + 10
    while state(waits) == "R":
        assert time.monotonic() < until
    assert state(waits) in "SD"  # asleep, not stopped (T)
    stall.end()
    assert said(waits) == "content of a\n"
    stall.end()  # twice is once


def test_what_is_open_is_read_on(files: Path) -> None:
    with (files / "b").open() as held:
        stall = Stall(files, 30)
        assert stall.files == 1
        assert held.read() == "content of b"
        assert said(reader(files / "b")) == "content of b\n"
    stall.end()


def test_longer_than_the_kernel_holds_is_refused(files: Path) -> None:
    with pytest.raises(AwsError, match="the kernel ends a lease"):
        Stall(files, int(LIMIT.read_text()) + 1)
