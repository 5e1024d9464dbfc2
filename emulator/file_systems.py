"""FSx for Lustre's own calls: a file system that a run makes, links to its data and deletes.

Shapes, lifecycles and error names are botocore's model's (``fsx``, 2018-03-01). A file system is a
folder of this machine; what its link shows is there once the link is available, and everything is
gone with it. As AWS says of DeleteFileSystem, none is deleted while it imports.
"""

import json
import secrets
import shutil
import threading
from collections.abc import Callable
from typing import Any

from emulator import cfn_fsx
from emulator.front import Front
from emulator.names import ACCOUNT, AwsError, arn
from emulator.training.settings import Settings
from emulator.training.storage import download
from emulator.world import World, epoch

PREFIX = "AWSSimbaAPIService_v20180301"
Item = dict[str, Any]


class FileSystems:
    """Faults: ``fsx_limit`` (refused at creation), ``fsx_fails`` (made, and then ``FAILED``)."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world, self._settings = world, settings
        self._systems: dict[str, Item] = {}
        self._links: dict[str, Item] = {}
        self._tokens: dict[str, tuple[Item, str]] = {}
        self._lock = threading.RLock()

    def register(self, front: Front) -> None:
        for operation, do in {
            "CreateFileSystem": self._create,
            "DeleteFileSystem": self._delete,
            "DescribeFileSystems": self._describe,
            "CreateDataRepositoryAssociation": self._link,
            "DescribeDataRepositoryAssociations": self._describe_links,
        }.items():
            front.add(f"{PREFIX}.{operation}", self._locked(do))

    def _locked(self, do: Callable[[Item], Item]) -> Callable[[Item], Item]:
        def answer(request: Item) -> Item:
            with self._lock:
                return do(request)

        return answer

    def _create(self, request: Item) -> Item:
        if known := self._known(request):
            return {"FileSystem": self._systems.get(known) or self._gone(known)}
        text = json.dumps(request)
        if self._world.faults.take("fsx_limit", text):
            raise AwsError("ServiceLimitExceeded", "Limit exceeded for resource type TOTAL_STORAGE")
        size = request["StorageCapacity"]
        if size != 1200 and size % 2400:
            said = f"Invalid Lustre FS storage capacity: {size}. Must be 1200 or a multiple of 2400"
            raise AwsError("BadRequest", said)
        system, mount = f"fs-{secrets.token_hex(9)[:17]}", secrets.token_hex(4)
        lustre = {**request["LustreConfiguration"], "MountName": mount}
        made = {
            "OwnerId": ACCOUNT,
            "CreationTime": epoch(),
            "FileSystemId": system,
            "Lifecycle": "CREATING",
            "DNSName": f"{system}.fsx.localhost",
            "ResourceARN": arn("fsx", f"file-system/{system}"),
            "LustreConfiguration": lustre,
            **{name: request[name] for name in _KEPT if name in request},
        }
        fails = self._world.faults.take("fsx_fails", text)
        folder = cfn_fsx.folder(self._world, system)
        (folder / mount).mkdir(parents=True)
        tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags", [])}
        (folder / cfn_fsx.TAGS).write_text(json.dumps(tags))
        self._systems[system] = made
        self._remember(request, system)
        self._later(lambda: self._becomes(made, _NO_CAPACITY if fails else None))
        return {"FileSystem": dict(made)}

    def _link(self, request: Item) -> Item:
        if known := self._known(request):
            return {"Association": dict(self._links[known])}
        system = self._find(request["FileSystemId"])
        if system["Lifecycle"] != "AVAILABLE":
            raise AwsError("BadRequest", f"{system['FileSystemId']} is {system['Lifecycle']}")
        mount = system["LustreConfiguration"]["MountName"]
        made, attributes = cfn_fsx.association(self._world, request, mount)
        link = {**request, **attributes, "Lifecycle": "CREATING", "CreationTime": epoch()}
        link.pop("ClientRequestToken", None)
        self._links[made] = link
        self._remember(request, made)
        self._later(lambda: self._imported(link, mount))
        return {"Association": dict(link)}

    def _imported(self, link: Item, mount: str) -> None:
        root = cfn_fsx.folder(self._world, link["FileSystemId"]) / mount
        if link.get("BatchImportMetaDataOnCreate"):
            download(link["DataRepositoryPath"], root / link["FileSystemPath"].lstrip("/"))
        self._becomes(link, None)

    def _delete(self, request: Item) -> Item:
        system = self._find(request["FileSystemId"])
        name = system["FileSystemId"]
        if any(
            x["FileSystemId"] == name and x["Lifecycle"] == "CREATING" for x in self._links.values()
        ):
            raise AwsError("BadRequest", f"a data repository task of {name} is EXECUTING")
        if system["Lifecycle"] != "DELETING":
            system["Lifecycle"] = "DELETING"
            self._later(lambda: self._end(name))
        return {"FileSystemId": name, "Lifecycle": "DELETING"}

    def _end(self, name: str) -> None:
        with self._lock:
            del self._systems[name]
            self._links = {k: v for k, v in self._links.items() if v["FileSystemId"] != name}
            shutil.rmtree(cfn_fsx.folder(self._world, name))

    def _describe(self, request: Item) -> Item:
        """Without ids all of the account, those of a stack too: they carry no tag of a run."""
        if asked := request.get("FileSystemIds"):
            return {"FileSystems": [dict(self._find(name)) for name in asked]}
        stacks = [
            {"FileSystemId": name, "Lifecycle": "AVAILABLE", "FileSystemType": "LUSTRE", "Tags": []}
            for name in cfn_fsx.names(self._world)
            if name not in self._systems
        ]
        return {"FileSystems": [*map(dict, self._systems.values()), *stacks]}

    def _describe_links(self, request: Item) -> Item:
        for name in request["AssociationIds"]:
            if name not in self._links:
                raise AwsError("DataRepositoryAssociationNotFound", f"There is no {name}.")
        return {"Associations": [dict(self._links[name]) for name in request["AssociationIds"]]}

    def _find(self, name: str) -> Item:
        return self._systems.get(name) or self._gone(name)

    def _gone(self, name: str) -> Item:
        raise AwsError("FileSystemNotFound", f"File system '{name}' does not exist.")

    def _known(self, request: Item) -> str | None:
        """What was made by an earlier call with the same token."""
        former = self._tokens.get(request["ClientRequestToken"])
        if former is None:
            return None
        if former[0] != request:
            raise AwsError("IncompatibleParameterError", "same token, other parameters")
        return former[1]

    def _remember(self, request: Item, made: str) -> None:
        self._tokens[request["ClientRequestToken"]] = request, made

    def _becomes(self, item: Item, failure: str | None) -> None:
        with self._lock:
            if item["Lifecycle"] != "CREATING":
                return
            if failure:
                item["FailureDetails"] = {"Message": failure}
            item["Lifecycle"] = "FAILED" if failure else "AVAILABLE"

    def _later(self, do: Callable[[], None]) -> None:
        """Each step takes some minutes on AWS."""
        seconds = self._settings.file_system_seconds

        def wait() -> None:
            if not self._world.closing.wait(seconds):
                do()

        self._world.background(wait, "a file system's next state")


_KEPT = (
    "FileSystemType",
    "FileSystemTypeVersion",
    "StorageCapacity",
    "StorageType",
    "SubnetIds",
    "Tags",
)
_NO_CAPACITY = "There is not enough capacity in this Availability Zone."
"""Our words: the service's own are in no public text that we found."""
