"""The life of a store: a read gives what was written or an error, whatever was damaged, deleted or interrupted."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from corpusmill.io.errors import DataError
from corpusmill.io.stores.store import Store
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from stateful.settings import few

NAMES = st.sampled_from(["a", "b", "folder/a", "folder/b"])
ARRAYS = st.dictionaries(
    st.sampled_from(["v", "w"]),
    hnp.arrays(st.sampled_from([np.uint16, np.int64, np.float32, bool]), hnp.array_shapes(min_dims=0, max_dims=2)),
    min_size=1,
)


class StoreMachine(RuleBasedStateMachine):
    """Compares a store in a folder with dictionaries of what was written."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.groups = {}
        self.files = {}
        self.damaged = set()

    def teardown(self):
        shutil.rmtree(self.folder)

    @property
    def store(self):
        """The store, opened again for each operation."""
        return Store(str(self.folder / "store"))

    @rule(name=NAMES, arrays=ARRAYS)
    def write_arrays(self, name, arrays):
        self.store.write_arrays(f"groups/{name}", arrays)
        self.groups[name] = arrays
        self.damaged.discard(name)

    @rule(name=NAMES, value=st.dictionaries(st.text(), st.integers()))
    def write_json(self, name, value):
        self.store.write_json(f"{name}.json", value)
        self.files[name] = value

    @precondition(lambda self: self.groups)
    @rule(data=st.data())
    def delete(self, data):
        name = data.draw(st.sampled_from(sorted(self.groups)))
        self.store.delete(f"groups/{name}")
        del self.groups[name]
        self.damaged.discard(name)

    @precondition(lambda self: self.groups)
    @rule(data=st.data(), bit=st.integers(0, 7))
    def damage(self, data, bit):
        """Flip a bit of an array, or lose the end of its file."""
        name = data.draw(st.sampled_from(sorted(self.groups)))
        paths = [path for path in (self.folder / "store/groups" / name).rglob("*") if path.is_file()]
        path = data.draw(st.sampled_from(sorted(paths)))
        content = bytearray(path.read_bytes())
        if not content:
            return
        place = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content[place] ^= 1 << bit
        else:
            del content[place:]
        path.write_bytes(bytes(content))
        self.damaged.add(name)

    @rule(name=NAMES)
    def interrupt_a_writer(self, name):
        """Leave what a process leaves that was killed while it wrote."""
        place = self.folder / "store/groups" / Path(name).parent
        (place / f".tmp-{'0a' * 16}-{Path(name).name}/v").mkdir(parents=True, exist_ok=True)
        (place / f".tmp-{'1b' * 16}-file.json").write_text("{")

    @rule()
    def resume(self):
        self.store.delete_leftovers()
        assert list(self.folder.rglob(".tmp-*")) == []

    @invariant()
    def reads_give_what_was_written_or_an_error(self):
        for name, arrays in self.groups.items():
            try:
                found = self.store.read_arrays(f"groups/{name}")
            except DataError as error:
                # A bit that is flipped twice is whole again.
                assert name in self.damaged, error
                continue
            assert found.keys() == arrays.keys()
            for key, array in arrays.items():
                assert found[key].dtype == array.dtype
                np.testing.assert_array_equal(found[key], array)
        for name, value in self.files.items():
            assert self.store.read_json(f"{name}.json") == value

    @invariant()
    def names_are_those_that_exist(self):
        top = {name for name in self.groups if "/" not in name}
        inner = {name.partition("/")[2] for name in self.groups if "/" in name}
        assert set(self.store.names("groups")) - {"folder"} == top
        assert set(self.store.names("groups/folder")) == inner


TestStore = StoreMachine.TestCase
TestStore.settings = few(examples=20, steps=20)
