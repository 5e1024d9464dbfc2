"""FSx for Lustre: a folder of this machine, and links from its paths to S3 prefixes.

As AWS does with an automatic import, a path shows the objects of its prefix; here they are fetched
when a job mounts it (``emulator.training.host``).
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from emulator.names import arn
from emulator.world import World

MOUNT = "fsx"
FOLDER = "fsx"
"""Of the emulator's state."""
LINKS = "links.json"
TAGS = "tags.json"
"""Of one that a run made: a stack's has none."""


def folder(world: World, system: str) -> Path:
    """Where a file system's files lie."""
    return world.state / FOLDER / system


def file_system(world: World, properties: dict[str, Any], name: str) -> tuple[str, dict[str, str]]:
    """(id, attributes); the same again for a stack that is updated."""
    digest = hashlib.sha256(json.dumps(properties["SubnetIds"]).encode()).hexdigest()
    system = f"fs-{digest[:17]}"
    (folder(world, system) / MOUNT).mkdir(parents=True, exist_ok=True)
    attributes = {
        "LustreMountName": MOUNT,
        "DNSName": f"{system}.fsx.localhost",
        "ResourceARN": arn("fsx", f"file-system/{system}"),
    }
    return system, attributes


def names(world: World) -> list[str]:
    """Of every file system there is."""
    return [path.name for path in (world.state / FOLDER).glob("fs-*")]


def tags(world: World, system: str) -> dict[str, str]:
    """Of a file system that a run made; empty of any other, and where there is none."""
    kept = folder(world, system) / TAGS
    return json.loads(kept.read_text()) if kept.exists() else {}


def association(
    world: World, properties: dict[str, Any], mount: str = MOUNT
) -> tuple[str, dict[str, str]]:
    """A link, kept beside the files. Only automatic imports show anything by themselves."""
    system, path = properties["FileSystemId"], properties["FileSystemPath"]
    (folder(world, system) / mount / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    shows = "AutoImportPolicy" in properties.get("S3", {})
    kept = folder(world, system) / LINKS
    link = {"prefix": properties["DataRepositoryPath"], "shows": shows}
    kept.write_text(json.dumps({**links(world, system), path: link}))
    digest = hashlib.sha256(f"{system}{path}".encode()).hexdigest()
    made = f"dra-{digest[:17]}"
    return made, {"AssociationId": made, "ResourceARN": arn("fsx", f"association/{made}")}


def links(world: World, system: str) -> dict[str, dict[str, Any]]:
    """Path on the file system → its S3 prefix, and whether that shows by itself."""
    kept = folder(world, system) / LINKS
    return json.loads(kept.read_text()) if kept.exists() else {}


def linked_prefix(world: World, system: str, path: str, *, by_itself: bool = True) -> str | None:
    """The S3 prefix behind a path of the file system."""
    path = "/" + path.lstrip("/")
    for start, link in links(world, system).items():
        if path.startswith(f"{start}/") and (link["shows"] or not by_itself):
            return f"{link['prefix'].rstrip('/')}{path.removeprefix(start)}"
    return None
