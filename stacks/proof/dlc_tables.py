"""Writes ``stacks/dlc.json`` from a wheel of sagemaker-core, whose tables ``image_uris`` reads.

pip download --no-deps sagemaker-core && python -m stacks.proof.dlc_tables sagemaker_core-*.whl
"""

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

from stacks.dlc import TABLE
from stacks.regions import REGIONS

FILES = ("pytorch.json", "pytorch-amzn2023.json")
"""Ubuntu up to torch 2.10, Amazon Linux from 2.11 on."""
OLDEST = (2, 9)
"""Before it the trainer's torch APIs and Everstep's EFA facts are not tested by anyone."""


def tables(wheel: Path) -> dict[str, Any]:
    """What ``dlc.json`` holds. Raises ValueError where the SDK's tables have another shape."""
    accounts: dict[str, str] = {}
    found: dict[str, tuple[str, set[str]]] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in FILES:
            raw = json.loads(archive.read(f"sagemaker/core/image_uri_config/{name}"))
            for version, entry in raw["training"]["versions"].items():
                minor = re.match(r"\d+\.\d+", version)
                if minor is None or tuple(map(int, minor[0].split("."))) < OLDEST:
                    continue
                for region, account in entry["registries"].items():
                    if accounts.setdefault(region, account) != account:
                        raise ValueError(f"{region} has two accounts, see torch {version}")
                image = f"{entry['repository']}:{_tag(version, entry)}"
                found[minor[0]] = (image, set(entry["registries"]))
    ours = {region: accounts[region] for region in sorted(accounts) if region in REGIONS}
    return {
        "source": f"{wheel.name}: image_uri_config/{', '.join(FILES)}",
        "accounts": ours,
        "versions": {
            version: {"image": image, "not_in": sorted(ours.keys() - regions)}
            for version, (image, regions) in found.items()
        },
    }


def _tag(version: str, entry: dict[str, Any]) -> str:
    """As ``image_uris.retrieve`` puts it together for a GPU type."""
    if "container_version" in entry:
        return f"{entry.get('tag_prefix', version)}-{entry['container_version']['gpu']}"
    return f"{version}-gpu-{entry['py_versions'][-1]}"


if __name__ == "__main__":
    TABLE.write_text(json.dumps(tables(Path(sys.argv[1])), indent=1) + "\n")
