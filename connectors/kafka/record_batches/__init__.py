"""
Record batches of Kafka (magic 2): the bytes of a fetch become Arrow columns, Arrow columns become bytes to produce.

Nothing here talks to a broker: bytes in, Arrow out, and the other way round. `fetched_records.decode` takes all that a fetch
brought of one partition, `encoded_batches.encode` all that is written to one. Work per record is numpy's and Arrow's; Python
runs once a batch.

A batch is a header of 61 bytes and its records, which alone are compressed. Integers of the header are big-endian:

    offset of the first record int64 | length of all behind this int32 | leader epoch int32 | magic int8 | CRC32C uint32
    attributes int16 | last offset delta int32 | first timestamp int64 | greatest timestamp int64
    producer id int64 | producer epoch int16 | first sequence int32 | record count int32

The checksum is of what follows it. A record has zigzag varints in place of all its numbers but the attributes:

    length | attributes int8 | timestamp delta | offset delta | key length | key | value length | value | header count | headers

A null key or value has the length -1. A header is: key length, key, value length, value.
"""

from __future__ import annotations
