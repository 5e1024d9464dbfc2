"""AWS Deep Learning Containers with PyTorch: the base image of a region and a torch version.

The table, ``dlc.json``, is written by ``stacks.proof.dlc_tables`` from the files that `sagemaker`'s
``image_uris`` itself reads, so that synthesis needs no half gigabyte of SDK.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from everstep.contracts.problems import Problem
from stacks.regions import REGIONS, partition_of

TABLE = Path(__file__).with_name("dlc.json")
DNS = {"aws-cn": "amazonaws.com.cn"}
PATH = "images.torch"


class Base(NamedTuple):
    """A public base image: where CodeBuild pulls from."""

    account: str
    repository: str
    uri: str


def table() -> dict[str, Any]:
    return dict(json.loads(TABLE.read_text()))


def versions_in(region: str) -> list[str]:
    """The torch versions, as ``major.minor``, that a region has an image of; oldest first."""
    known = table()
    if region not in known["accounts"]:
        return []
    return [v for v, image in known["versions"].items() if region not in image["not_in"]]


def base_image(region: str, torch: str) -> Base:
    """Raises KeyError where there is none: ``images_problems`` has said so before."""
    known = table()
    if torch not in versions_in(region):
        raise KeyError(f"no image with torch {torch} in {region}")
    account = known["accounts"][region]
    repository, _, tag = known["versions"][torch]["image"].partition(":")
    host = f"{account}.dkr.ecr.{region}.{DNS.get(partition_of(region), 'amazonaws.com')}"
    return Base(account, repository, f"{host}/{repository}:{tag}")


def images_problems(sections: Mapping[str, Any]) -> Iterator[Problem]:
    images, region = sections.get("images"), sections.get("region")
    if images is None:
        return
    if images.base != "dlc":
        if "torch" in images.model_fields_set:
            yield Problem(
                path=PATH,
                value=images.torch,
                message='chooses a Deep Learning Container, and images.base is "cuda"',
                hint='base = "dlc"; or leave it out: containers/versions.toml pins the other',
            )
        return
    if region not in REGIONS:
        return  # said already
    there = versions_in(region)
    if images.torch not in there:
        yield Problem(
            path=PATH,
            value=images.torch,
            message=f"no Deep Learning Container with this torch in {region}",
            hint=f"there are {', '.join(there)}" if there else 'none; use base = "cuda"',
        )
