"""Hashes and digests are Spark's, byte for byte: a store that is partitioned by one must find its rows again."""

from __future__ import annotations

import hashlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.sampling import examples
from tests.unit.expressions.values import in_texts, value_of

GOLDEN = {  # from Spark 4.2
    "hash('Spark')": 228093765,
    "hash('')": 142593372,
    "hash(1)": -559580957,
    "hash(1L)": -1712319331,
    "hash(1, 2)": -222940379,
    "hash(1.5D)": 1290763749,
    "hash(true)": -559580957,
    "hash(CAST(NULL AS INT))": 42,
    "hash('Spark', array(123), 2)": -1321691492,
    "xxhash64('Spark')": -4294468057691064905,
    "xxhash64('')": -7444071767201028348,
    "xxhash64(1L)": -7001672635703045582,
    "xxhash64(CAST(NULL AS STRING))": 42,
    "xxhash64('Spark', array(123), 2)": 5602566077635097486,
    "md5('Spark')": "8cde774d6f7333752ed72cacddb05126",
    "sha1('Spark')": "85f5955f4b27a9a4c2aab6ffe5d7189fc298b92c",
    "sha2('Spark', 256)": "529bc3b07127ecb7e53a4dcf1991d9152c24537d919178022b2c42657f79a26b",
    "crc32('Spark')": 1557323817,
}


@pytest.mark.parametrize("text", GOLDEN)
def test_golden_values(text):
    """The value is the one that Spark gave."""
    assert value_of(text) == GOLDEN[text]


def test_columns_hash_as_constants_do():
    """A row has the hash that its value has as a constant; a null leaves the seed as it is."""
    texts = ["Spark", "", "é😀", None, "abcdefgh", "a" * 40]
    written = ["NULL" if text is None else f"'{text}'" for text in texts]
    for function in ("hash", "xxhash64"):
        assert in_texts(f"{function}(s)", *texts) == [value_of(f"{function}(CAST({text} AS STRING))") for text in written]


def test_a_null_between_values_changes_nothing():
    """Spark skips nulls: the hash of (a, null, b) is that of (a, b)."""
    assert value_of("hash(1, CAST(NULL AS INT), 2)") == value_of("hash(1, 2)")
    assert value_of("xxhash64(CAST(NULL AS INT), 'a')") == value_of("xxhash64('a')")


@examples(40)
@given(st.lists(st.text(max_size=70), min_size=1, max_size=5))
def test_digests_are_those_of_the_bytes(texts):
    """Digests are of the text in UTF-8, as hashlib computes them."""
    data = [text.encode() for text in texts]
    assert in_texts("md5(s)", *texts) == [hashlib.md5(one).hexdigest() for one in data]
    assert in_texts("sha2(s, 512)", *texts) == [hashlib.sha512(one).hexdigest() for one in data]
    assert in_texts("crc32(s)", *texts) == [zlib.crc32(one) for one in data]
