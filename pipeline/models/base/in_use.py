"""Where the model of a URL lies: in its own folder, in that of its run, or among the versions of a retrained model."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ....io.errors import DataError
from ....io.stores.conditional import read_commit
from ....io.stores.store import JsonObject, Store
from ...engine.run import config_section


@dataclass(frozen=True)
class VersionsHead:
    """The file HEAD of a retrained model, which names the version in use.

    Parameters
    ----------
    version : int, default=0
        The version in use; 0 before the first one.
    withdrawn : tuple of int, default=()
        Versions that must not be used again.
    folders : mapping of int to str
        Folder of each complete version, by its number.
    """

    version: int = 0
    withdrawn: tuple[int, ...] = ()
    folders: Mapping[int, str] = field(default_factory=dict)

    def folder(self, number: int, url: str) -> str:
        """Return the folder of a complete version, relative to ``url``; raise DataError if there is no such version."""
        if number not in self.folders:
            known = ", ".join(str(n) for n in sorted(self.folders)) or "none"
            raise DataError(f"{url}: no version {number} here; versions: {known}")
        return f"versions/{self.folders[number]}"

    def as_json(self) -> JsonObject:
        """Return the content of the file."""
        return {
            "kind": "head",
            "version": self.version,
            "withdrawn": [number for number in self.withdrawn if number in self.folders],
            "folders": {str(number): folder for number, folder in self.folders.items()},
        }


def parse_head(found: JsonObject | None, url: str) -> VersionsHead:
    """Return what the content of HEAD says; raise DataError if it is damaged. None is that of a missing file."""
    if found is None:
        return VersionsHead()
    try:
        version = int(found["version"])
        withdrawn = tuple(int(number) for number in found["withdrawn"])
        return VersionsHead(version, withdrawn, {int(n): str(folder) for n, folder in found["folders"].items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{url}/HEAD: names no version ({error!r})") from None


def read_head(store: Store) -> VersionsHead:
    """Read HEAD of a retrained model."""
    return parse_head(read_commit(store, "HEAD")[0], store.url)


def read_published_head(store: Store) -> VersionsHead:
    """Read HEAD of a retrained model; raise DataError if no version was ever published there."""
    # A run has a file HEAD too, with another content.
    head = read_head(store) if store.names("versions") else VersionsHead()
    if not head.version:
        raise DataError(f"{store.url}: there are no versions here; make the first with `corpusmill retrain CONFIG`")
    return head


def model_in_use(url: str) -> str:
    """Return the URL of the model that ``url`` stands for.

    The folder of a retrained model stands for the version in use, and the folder of a run for the model that the run
    has saved. Any other URL stands for itself.
    """
    store = Store(url)
    if store.exists("model.json"):
        return url
    if store.exists("versions"):
        head = read_published_head(store)
        return store.child(f"{head.folder(head.version, url)}/model").url
    if store.exists("model/model.json"):
        return f"{url.rstrip('/')}/model"
    if store.exists("run.json"):
        place = model_place(store)
        if place and Store(place).exists("model.json"):
            return place
    return url


def model_place(run: Store) -> str:
    """Return where the configuration of a run says that its model is saved; "" if it does not say so."""
    # A custom configuration may have anything there.
    place = config_section(run.read_json("run.json"), "run").get("model")
    return place if isinstance(place, str) else ""
