"""Transforms do what those of Kafka Connect 4.3.0 and Debezium 3.6.1 did with the same records; their answers are recorded."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.kit.sampling import TAKES_ALL
from tests.kit.servers.transforms import answers_of_connect
from tests.unit.connectors.transforms.cases import all_cases, chains
from tests.unit.connectors.transforms.comparison import agree, connects, ours

RECORDED = Path(__file__).parent / "data" / "connect.json.gz"


def recorded():
    return json.loads(gzip.decompress(RECORDED.read_bytes()))


def differences(cases, answers):
    return [
        (case["config"], mine, theirs)
        for case, answer in zip(cases, answers, strict=True)
        for mine, theirs in [(ours(case), connects(answer))]
        if not agree(mine, theirs)
    ]


def test_as_connect_did():
    """Topics, keys, values, their types, headers, and which records fail are as recorded of Connect, for every transform."""
    cases = all_cases()
    found = differences(cases, recorded())
    assert not found, f"{len(found)} of {len(cases)} differ, such as {found[0]}"


@pytest.mark.skipif(not TAKES_ALL, reason="starts a JVM: make torture")
def test_as_connect_does(tmp_path):
    """Connect itself gives what is recorded, and the same as we do for many more chains."""
    more = chains(1_000, 2)
    answers = answers_of_connect([*all_cases(), *more], tmp_path)
    if answers is None:
        pytest.skip("Maven, Java or the artifacts of Connect are missing")
    assert answers[: -len(more)] == recorded()
    found = differences(more, answers[-len(more) :])
    assert not found, f"{len(found)} of {len(more)} differ, such as {found[0]}"


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        answers = answers_of_connect(all_cases(), Path(folder))
    RECORDED.write_bytes(gzip.compress(json.dumps(answers).encode(), mtime=0))
