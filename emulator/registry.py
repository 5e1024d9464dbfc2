"""The registry's first image: on this machine a host's image is the checkout, already built."""

import json
from hashlib import sha256
from typing import Any

from moto.ecr.models import ECRBackend, Repository

from emulator.patching import replace

TAG = "stable"
MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "layers": [],
    }
)


def patch_registry() -> None:
    """Each repository is born with an image ``stable``: nothing here could build one."""

    def create(backend: ECRBackend, repository_name: str, *args: Any, **more: Any) -> Repository:
        made: Repository = former(backend, repository_name, *args, **more)
        digest = f"sha256:{sha256(MANIFEST.encode()).hexdigest()}"
        backend.put_image(repository_name, MANIFEST, TAG, digest=digest)
        return made

    former = replace(ECRBackend, "create_repository", create)
