"""The checkpoints below a run's prefix: which are committed, which are whole, which may go."""

from dataclasses import dataclass

from everstep.contracts.manifest import MANIFEST_NAME, CheckpointName, Manifest, ManifestEntry
from trainer.store import Store


class BrokenCheckpoint(Exception):
    """Why a checkpoint cannot be used; the text is shown to the user."""


@dataclass(frozen=True)
class Listed:
    """One checkpoint folder. ``files``: path below the folder → bytes."""

    name: CheckpointName
    files: dict[str, int]

    @property
    def committed(self) -> bool:
        return MANIFEST_NAME in self.files


class Catalogue:
    """Reads and prunes; only rank 0 of a job uses one."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def newest_first(self) -> list[Listed]:
        """Committed or not, by (step, launch)."""
        folders: dict[str, dict[str, int]] = {}
        for key, size in self.store.listing().items():
            folder, slash, path = key.partition("/")
            if slash and CheckpointName.parse(folder):
                folders.setdefault(folder, {})[path] = size
        listed = [
            Listed(name, files)
            for folder, files in folders.items()
            if (name := CheckpointName.parse(folder)) is not None
        ]
        return sorted(listed, key=lambda item: item.name.order, reverse=True)

    def manifest(self, listed: Listed) -> Manifest:
        """The manifest, with every file it names there in the right size.

        Raises ``BrokenCheckpoint``. Contents are not read: see ``verify_file``.
        """
        if not listed.committed:
            raise BrokenCheckpoint(f"not committed: no {MANIFEST_NAME}")
        raw = self.store.read(f"{listed.name}/{MANIFEST_NAME}")
        try:
            manifest = Manifest.unseal(raw or b"")
        except ValueError as error:  # pydantic's and json's errors are among them
            reason = " ".join(str(error).split())
            raise BrokenCheckpoint(f"{MANIFEST_NAME} is not what was written: {reason}") from error
        if (manifest.step, manifest.launch) != listed.name.order:
            raise BrokenCheckpoint(
                f"{MANIFEST_NAME} is of step {manifest.step}, launch {manifest.launch}"
            )
        for entry in manifest.entries:
            size = listed.files.get(entry.path)
            if size is None:
                raise BrokenCheckpoint(f"{entry.path} is missing")
            if size != entry.size:
                raise BrokenCheckpoint(f"{entry.path} has {size} bytes, not {entry.size}")
        return manifest

    def remove(self, listed: Listed) -> None:
        """Manifest first: at no time does a manifest promise files that are gone."""
        if listed.committed:
            self.store.delete([f"{listed.name}/{MANIFEST_NAME}"])
        self.store.delete(
            [f"{listed.name}/{path}" for path in listed.files if path != MANIFEST_NAME]
        )

    def remove_name(self, name: CheckpointName) -> None:
        """Whatever lies in the folder ``name``: leftovers of an earlier try of this launch."""
        prefix = f"{name}/"
        files = {key[len(prefix) :]: size for key, size in self.store.listing(str(name)).items()}
        if files:
            self.remove(Listed(name, files))

    def remove_abandoned(self, launch: int) -> list[CheckpointName]:
        """Uncommitted folders of this and older launches: nobody will finish them.

        Call it before this launch saves for the first time.
        """
        gone = [
            item
            for item in self.newest_first()
            if not item.committed and item.name.launch <= launch
        ]
        for item in gone:
            self.remove(item)
        return [item.name for item in gone]

    def retain(
        self, keep_last: int, broken: set[CheckpointName], keep_every: int | None = None
    ) -> list[CheckpointName]:
        """Removes what is older than the newest ``keep_last`` committed and unbroken ones.

        ``keep_every``: of every so many steps (from each multiple up to the next) the first good
        one stays for ever.
        """
        committed = [item for item in self.newest_first() if item.committed]
        durable = [item for item in committed if item.name not in broken]
        if len(durable) < keep_last:
            return []
        oldest = durable[keep_last - 1].name.order
        kept: dict[int, CheckpointName] = {}
        if keep_every:
            for item in durable:  # from the newest: the first of its stretch comes last
                if item.name.step >= keep_every:
                    kept[item.name.step // keep_every] = item.name
        for_ever = set(kept.values())
        gone = [i for i in committed if i.name.order < oldest and i.name not in for_ever]
        for item in gone:
            self.remove(item)
        return [item.name for item in gone]


def describe_difference(entry: ManifestEntry, size: int, digest: str) -> str | None:
    """None where a file read back is the one that was written."""
    if size != entry.size:
        return f"{entry.path} has {size} bytes, not {entry.size}"
    if digest != entry.sha256:
        return f"{entry.path} has sha256 {digest[:12]}…, not {entry.sha256[:12]}…"
    return None
