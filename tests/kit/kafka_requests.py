"""Requests of Kafka's protocol, sent by hand: bytes of record batches in, and out as a broker has them; levels of features."""

from __future__ import annotations

import socket
import struct

PRODUCE, FETCH, FEATURES = (0, 7), (1, 4), (57, 1)  # the key and the version; zstd is taken from 7 on
WAIT_MS, BYTES_MAX = 20_000, 1 << 26


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def ask(address, request, body):
    """What a broker answers to a request."""
    host, _, port = address.rpartition(":")
    message = struct.pack(">hhi", *request, 1) + text("tests") + body
    with socket.create_connection((host, int(port)), 30) as line, line.makefile("rb") as answers:
        line.sendall(struct.pack(">i", len(message)) + message)
        (length,) = struct.unpack(">i", answers.read(4))
        return answers.read(length)[4:]


def produce_bytes(address, topic, data):
    """Write a batch to partition 0; the error's code and the offset."""
    topics = struct.pack(">i", 1) + text(topic) + struct.pack(">iii", 1, 0, len(data)) + data
    answer = ask(address, PRODUCE, struct.pack(">hhi", -1, -1, WAIT_MS) + topics)
    return struct.unpack_from(">hq", answer, 4 + 2 + len(topic.encode()) + 4 + 4)


def fetch_bytes(address, topic, offset, *, is_committed, bytes_max=BYTES_MAX):
    """The bytes of partition 0 from an offset on, and the aborted transactions as (producer, first offset)."""
    isolation = 1 if is_committed else 0
    topics = struct.pack(">i", 1) + text(topic) + struct.pack(">iiqi", 1, 0, offset, bytes_max)
    answer = ask(address, FETCH, struct.pack(">iiiib", -1, 0, 0, BYTES_MAX, isolation) + topics)
    at = 4 + 4 + 2 + len(topic.encode()) + 4 + 4
    error, _, _, count = struct.unpack_from(">hqqi", answer, at)
    assert error == 0
    at += 22
    aborted = [struct.unpack_from(">qq", answer, at + 16 * number) for number in range(count)]
    at += 16 * max(count, 0)
    (length,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + length], aborted


def raise_feature(address, name, level):
    """Raise a feature of the cluster to a level; the error's code."""
    no_tags = b"\0"
    update = struct.pack(">b", len(name) + 1) + name.encode() + struct.pack(">hb", level, 1) + no_tags
    body = no_tags + struct.pack(">ib", WAIT_MS, 1 + 1) + update + struct.pack(">b", 0) + no_tags
    (error,) = struct.unpack_from(">h", ask(address, FEATURES, body), 1 + 4)
    return error
