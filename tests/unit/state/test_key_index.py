"""An index of keys answers as a dict does, also where hashes are equal, and looks at the keys once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.log.values.keys import murmur2
from streamkit.state import key_index
from streamkit.state.key_index import KeyIndex
from tests.kit.sampling import examples

KEYS = st.binary(max_size=3) | st.sampled_from([b"", b"a", b"a\0", b"a" * 20])
HASHES = {
    "murmur2": murmur2,
    "all equal": lambda keys: np.zeros(len(keys), np.int32),
    "by length": lambda keys: np.array([len(key or b"") for key in keys.to_pylist()], np.int32),
    "equal in the last bits": lambda keys: murmur2(keys) & np.int32(-(1 << 20)),
}


@pytest.mark.parametrize("name", HASHES)
def test_an_index_answers_as_a_dict(name: str) -> None:
    """Each wanted key is found where it stands first, and no other; whatever the hashes."""

    @examples(200)
    @given(st.lists(KEYS, max_size=40), st.lists(KEYS | st.none(), max_size=40))
    def answers(keys: list[bytes], wanted: list[bytes | None]) -> None:
        first = {key: place for place, key in reversed(list(enumerate(keys)))}
        found = KeyIndex(pa.array(keys, pa.binary())).find(pa.array([*keys, *wanted], pa.binary()))
        assert found.tolist() == [first.get(key, -1) if key is not None else -1 for key in [*keys, *wanted]]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_index, "murmur2", HASHES[name])
        answers()


def test_an_index_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is asked, an index hashes its own keys no more than at first."""
    hashed: list[int] = []

    def counted(keys: pa.BinaryArray) -> npt.NDArray[np.int32]:
        hashed.append(len(keys))
        return murmur2(keys)

    monkeypatch.setattr(key_index, "murmur2", counted)
    index = KeyIndex(pa.array([number.to_bytes(4, "big") for number in range(1_000)], pa.binary()))
    for number in range(10):
        assert index.find(pa.array([number.to_bytes(4, "big")], pa.binary())).tolist() == [number]
    assert [count for count in hashed if count > 1] == [1_000]
