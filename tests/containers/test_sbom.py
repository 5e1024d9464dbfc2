"""The bill of materials, made for real by the tool and the output format of the build."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

from stacks.build_spec import BUILD_SPEC

ROOT = Path(__file__).parents[2]
PACKAGES = ("boto3", "pydantic", "tokenizers", "safetensors")
DPKG = """Package: libnccl-ofi
Status: install ok installed
Version: 1.20.0-1
Architecture: amd64
Maintainer: somebody
Description: a package of the EFA installer

"""


def test_python_and_system_packages_are_listed(tmp_path: Path) -> None:
    image = tmp_path / "image"
    site = image / "opt" / "everstep" / "lib" / "python3.12" / "site-packages"
    for name in PACKAGES:
        source = Path(str(distribution(name)._path))  # type: ignore[attr-defined]
        shutil.copytree(source, site / source.name)
    for path, text in (
        ("var/lib/dpkg/status", DPKG),
        ("etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\n'),
    ):
        (image / path).parent.mkdir(parents=True)
        (image / path).write_text(text)
    build = str(BUILD_SPEC)
    assert "-o cyclonedx-json=/tmp/sbom.json" in build
    sbom = tmp_path / "sbom.json"
    subprocess.run(
        [
            Path(sys.executable).parent / "syft",
            "scan",
            f"dir:{image}",
            "-o",
            f"cyclonedx-json={sbom}",
        ],
        env={**os.environ, "SYFT_CHECK_FOR_APP_UPDATE": "false", "HOME": str(tmp_path)},
        check=True,
        capture_output=True,
    )
    bill = json.loads(sbom.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    found = {part["name"]: part.get("version") for part in bill["components"]}
    assert found["libnccl-ofi"] == "1.20.0-1"
    assert {name: found[name] for name in PACKAGES} == {
        name: distribution(name).version for name in PACKAGES
    }


def test_the_tool_is_the_tested_one_and_comes_by_hash() -> None:
    (line,) = [
        line
        for line in (ROOT / "containers" / "syft.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    pin, _, digest = line.partition(" --hash=sha256:")
    assert re.fullmatch("[0-9a-f]{64}", digest)
    assert pin in (ROOT / "requirements-dev.txt").read_text().splitlines()
