"""
The events of Nexmark, an auction house on the web: people register, open auctions, and bid.

Every number of events, seed and rate gives one data set, the same everywhere. What is drawn, and how likely it is, follows the generator of
nexmark-flink: of 50 events one is a person, three are auctions and 46 are bids.

    python topologies/nexmark/generator.py [--log DIR] [--events N] [--seed N] [--partitions N]
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.errors import StreamKitError
from streamkit.schema import Schema

if TYPE_CHECKING:
    from streamkit.log.log import Log

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

PERSON = Schema.parse(
    "id bigint NOT NULL, name string, emailAddress string, creditCard string, city string, state string, dateTime timestamp NOT NULL, extra string"
)
AUCTION = Schema.parse(
    "id bigint NOT NULL, itemName string, description string, initialBid bigint, reserve bigint, dateTime timestamp NOT NULL, expires timestamp, "
    "seller bigint, category bigint, extra string"
)
BID = Schema.parse(
    "auction bigint NOT NULL, bidder bigint, price bigint, channel string, url string, dateTime timestamp NOT NULL, extra string"
)
SIDE_INPUT = Schema.parse("key bigint NOT NULL, value string")

BEGIN = dt.datetime(2025, 12, 31, 23, 59, 10, tzinfo=dt.timezone.utc)  # so that a million events end on another day
BATCH_ROWS = 65_536
SIDE_INPUT_ROWS = 10_000

GROUP, PERSONS, AUCTIONS = 50, 1, 3  # of a group of events the first is a person, then come auctions, then bids
FIRST_ID = 1_000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_EVERY = 100  # one person, or auction, of so many in a row is hot
HOT_AUCTION_CHANCE, HOT_SELLER_CHANCE, HOT_BIDDER_CHANCE, HOT_CHANNEL_CHANCE = 1 / 2, 3 / 4, 3 / 4, 1 / 2
AUCTIONS_IN_FLIGHT, PEOPLE_ACTIVE = 100, 1_000
LEAD = 10  # ids that are not there yet, but named already
STRIDE = 953  # prime: it permutes a group of any size that it does not divide

STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
CITIES = ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"]
FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
CHANNELS = 10_000
CHANNEL_ID_CHANCE = 9 / 10
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100


@dataclass(frozen=True)
class Events:
    """The events of each kind, in the order in which they arrive."""

    person: pa.Table
    auction: pa.Table
    bid: pa.Table


def generate(
    events: int = 1_000_000,
    seed: int = 0,
    *,
    events_per_second: float = 10_000,
    out_of_order_group: int = 1_000,
    begin: dt.datetime = BEGIN,
) -> Events:
    """
    Make the first `events` events of a seed.

    Each event is `1 / events_per_second` later than the one before. They arrive shuffled: `out_of_order_group` events in a row change
    places among each other, always in the same way; with 1 they keep their order.
    """
    number = np.arange(events)
    stamp_ms = round(begin.timestamp() * 1000) + (number * (1000 / events_per_second)).astype(np.int64)
    arrival = _shuffled(number, out_of_order_group)
    place = arrival % GROUP
    horizon_ms = int(AUCTIONS_IN_FLIGHT * GROUP / AUCTIONS * 1000 / events_per_second)
    person, auction, bid = (np.random.default_rng([seed, kind]) for kind in range(3))
    is_person, is_bid = place < PERSONS, place >= PERSONS + AUCTIONS
    return Events(
        _persons(person, arrival[is_person], stamp_ms),
        _auctions(auction, arrival[~is_person & ~is_bid], stamp_ms, horizon_ms),
        _bids(bid, arrival[is_bid], stamp_ms),
    )


def side_input() -> pa.Table:
    """The small table that query 13 joins: a text for each number below 10,000."""
    key = pa.array(np.arange(SIDE_INPUT_ROWS))
    return pa.table([key, key.cast(pa.string())], schema=SIDE_INPUT.arrow)


def load(log: Log, events: Events, partitions: int = 4, *, by_arrival: bool = False) -> None:
    """
    Create the topics `person`, `auction`, `bid` and `side_input`, and append what is not in them yet.

    The event time of a row is its `dateTime`. With `by_arrival` it is the moment at which the log takes the row.
    """
    _append(log, "side_input", SIDE_INPUT, "key", side_input(), 1, {})
    stamp = {"message.timestamp.type": "LogAppendTime"} if by_arrival else {}
    timestamp = None if by_arrival else "dateTime"
    _append(log, "person", PERSON, "id", events.person, partitions, stamp, timestamp)
    _append(log, "auction", AUCTION, "id", events.auction, partitions, stamp, timestamp)
    _append(log, "bid", BID, "auction", events.bid, partitions, stamp, timestamp)


def _append(
    log: Log,
    topic: str,
    schema: Schema,
    key: str,
    rows: pa.Table,
    partitions: int,
    config: dict[str, str],
    timestamp: str | None = None,
) -> None:
    """Each batch has a fixed place in the sequence of a fixed producer, so what was loaded before is not loaded again."""
    log.create_topic(topic, schema, key, timestamp, partitions=partitions, config={"retention.ms": -1, **config})
    with log.producer(id=f"nexmark-{topic}") as producer:
        for sequence, start in enumerate(range(0, rows.num_rows, BATCH_ROWS)):
            producer.send_batch(topic, rows.slice(start, BATCH_ROWS), sequence=sequence)


def _shuffled(number: Numbers, group: int) -> Numbers:
    """The numbers of events in the order of arrival; what is behind the last whole group keeps its order."""
    whole = number[: len(number) // group * group]
    return np.concatenate([whole // group * group + whole * STRIDE % group, number[len(whole) :]])


def _persons(random: np.random.Generator, number: Numbers, stamp_ms: Numbers) -> pa.Table:
    rows = len(number)
    name = pc.binary_join_element_wise(_picked(random, FIRST_NAMES, rows), _picked(random, LAST_NAMES, rows), " ")
    email = pc.binary_join_element_wise(_texts(random, 7, rows), "@", _texts(random, 5, rows), ".com", "")
    digits = pa.array([f"{part:04d}" for part in range(10_000)])
    card = pc.binary_join_element_wise(*(digits.take(random.integers(0, 10_000, rows)) for _ in range(4)), " ")
    columns = [name, email, card, _picked(random, CITIES, rows), _picked(random, STATES, rows)]
    extra = _extra(random, sum(map(_lengths, columns), np.full(rows, 8)), PERSON_BYTES)
    return pa.table([_last_person(number) + FIRST_ID, *columns, _times(stamp_ms[number]), extra], schema=PERSON.arrow)


def _auctions(random: np.random.Generator, number: Numbers, stamp_ms: Numbers, horizon_ms: int) -> pa.Table:
    rows = len(number)
    last_person = _last_person(number)
    is_hot = random.random(rows) < HOT_SELLER_CHANCE
    seller = np.where(is_hot, last_person // HOT_EVERY * HOT_EVERY, _active_person(random, last_person)) + FIRST_ID
    category = FIRST_CATEGORY + random.integers(0, CATEGORIES, rows)
    initial = _prices(random, rows)
    name, description = _texts(random, 20, rows), _texts(random, 100, rows)
    expires_ms = stamp_ms[number] + 1 + random.integers(0, max(2 * horizon_ms, 1), rows)
    extra = _extra(random, 48 + _lengths(name) + _lengths(description), AUCTION_BYTES)
    times = _times(stamp_ms[number]), _times(expires_ms)
    columns = [name, description, initial, initial + _prices(random, rows), *times, seller, category, extra]
    return pa.table([_last_auction(number) + FIRST_ID, *columns], schema=AUCTION.arrow)


def _bids(random: np.random.Generator, number: Numbers, stamp_ms: Numbers) -> pa.Table:
    rows = len(number)
    last_auction, last_person = _last_auction(number), _last_person(number)
    earliest = np.maximum(last_auction - AUCTIONS_IN_FLIGHT, 0)
    in_flight = earliest + random.integers(0, last_auction - earliest + 1 + LEAD)
    auction = np.where(random.random(rows) < HOT_AUCTION_CHANCE, last_auction // HOT_EVERY * HOT_EVERY, in_flight)
    hot_bidder = last_person // HOT_EVERY * HOT_EVERY + 1  # not the hot seller
    bidder = np.where(random.random(rows) < HOT_BIDDER_CHANCE, hot_bidder, _active_person(random, last_person))
    channel, url = _channels(random, rows)
    extra = _extra(random, np.full(rows, 32), BID_BYTES)
    columns = [auction + FIRST_ID, bidder + FIRST_ID, _prices(random, rows), channel, url, _times(stamp_ms[number]), extra]
    return pa.table(columns, schema=BID.arrow)


def _last_person(number: Numbers) -> Numbers:
    """The person that came last when an event was made, counted from 0; of a person itself."""
    return number // GROUP * PERSONS + np.minimum(number % GROUP, PERSONS - 1)


def _last_auction(number: Numbers) -> Numbers:
    """The auction that came last, counted from 0; of an auction itself, and -1 before the first."""
    return number // GROUP * AUCTIONS + np.clip(number % GROUP - PERSONS, -1, AUCTIONS - 1)


def _active_person(random: np.random.Generator, last_person: Numbers) -> Numbers:
    """Anybody of the last thousand people, or of the next few."""
    active = np.minimum(last_person + 1, PEOPLE_ACTIVE)
    return last_person + 1 - active + random.integers(0, active + LEAD)


def _prices(random: np.random.Generator, rows: int) -> Numbers:
    """From a dollar to a million, in cents; every order of magnitude is as likely as the others."""
    return np.rint(10 ** (random.random(rows) * 6) * 100).astype(np.int64)


def _channels(random: np.random.Generator, rows: int) -> tuple[pa.Array, pa.Array]:
    """Half of the bids come by four channels, the others by ten thousand, most of which tell their id in the address."""
    names = pa.array([*HOT_CHANNELS, *(f"channel-{number}" for number in range(CHANNELS))])
    folders = [_texts(random, 5, len(names), "_") for _ in range(3)]
    urls = pc.binary_join_element_wise("https://www.nexmark.com", *folders, "item.htm?query=1", "/")
    ids = pa.array([None] * len(HOT_CHANNELS) + [f"&channel_id={_reversed_bits(number)}" for number in range(CHANNELS)])
    told = pc.if_else(pa.array(random.random(len(names)) < CHANNEL_ID_CHANCE), pc.fill_null(ids, ""), "")
    urls = pc.binary_join_element_wise(urls, told, "")
    is_hot = random.random(rows) < HOT_CHANNEL_CHANCE
    chosen = np.where(is_hot, random.integers(0, len(HOT_CHANNELS), rows), len(HOT_CHANNELS) + random.integers(0, CHANNELS, rows))
    return names.take(pa.array(chosen)), urls.take(pa.array(chosen))


def _reversed_bits(number: int) -> int:
    """The 32 bits of a number back to front, as a signed number without its sign."""
    back = int(f"{number:032b}"[::-1], 2)
    return abs(back - (1 << 32) if back >> 31 else back)


def _picked(random: np.random.Generator, words: list[str], rows: int) -> pa.Array:
    return pa.array(words).take(pa.array(random.integers(0, len(words), rows)))


def _texts(random: np.random.Generator, length_max: int, rows: int, special: str = " ") -> pa.Array:
    """Texts of three letters or more, of which one in thirteen is the special one; blanks at the ends are cut off."""
    return pc.utf8_trim(_letters(random, random.integers(3, length_max, rows), special, 1 / 13), " ")


def _extra(random: np.random.Generator, size: Numbers, size_mean: int) -> pa.Array:
    """Letters that fill a row up to about the mean size of its kind, give or take a fifth."""
    wanted = np.maximum(size_mean - size, 0)
    spread = np.rint(wanted * 0.2).astype(np.int64)
    return _letters(random, wanted - spread + random.integers(0, np.maximum(2 * spread, 1)))


def _letters(random: np.random.Generator, lengths: Numbers, special: str = " ", special_chance: float = 0.0) -> pa.Array:
    """Random texts of these lengths."""
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    letters = random.integers(ord("a"), ord("z") + 1, ends[-1], dtype=np.uint8)
    if special_chance:
        letters[random.random(len(letters)) < special_chance] = ord(special)
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(ends), pa.py_buffer(letters))


def _lengths(texts: pa.Array) -> Numbers:
    lengths: Numbers = pc.binary_length(texts).to_numpy().astype(np.int64)
    return lengths


def _times(stamp_ms: Numbers) -> pa.Array:
    return pa.array(stamp_ms).cast(pa.timestamp("ms", "UTC"))


def main() -> None:
    """Load the events into the log named on the command line."""
    import streamkit as sk

    parser = argparse.ArgumentParser(description="Load the events of Nexmark into a log.")
    parser.add_argument("--log", metavar="DIR", help="where the log is; else STREAMKIT_LOG, else .streamkit")
    parser.add_argument("--events", type=int, default=1_000_000, help="how many (default 1,000,000)")
    parser.add_argument("--seed", type=int, default=0, help="which of the data sets (default 0)")
    parser.add_argument("--partitions", type=int, default=4, help="partitions of the topics (default 4)")
    parser.add_argument("--by-arrival", action="store_true", help="event times are those of arrival: for query 12")
    options = parser.parse_args()
    events = generate(options.events, options.seed)
    try:
        load(sk.open_log(options.log), events, options.partitions, by_arrival=options.by_arrival)
    except StreamKitError as error:
        sys.exit(f"{parser.prog}: {error}")
    print(f"person: {events.person.num_rows:,}, auction: {events.auction.num_rows:,}, bid: {events.bid.num_rows:,} rows")


if __name__ == "__main__":
    main()
