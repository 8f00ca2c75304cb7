"""
What the queries of Nexmark ask, as SQL over all events at once: DuckDB answers, which shares nothing with the engine.

Tables: `person`, `auction` and `bid` with the columns of the topics, times without a zone, and `arrival`, the number of the row in the
order of arrival; `side_input`. Where Nexmark leaves open which of equal rows counts, the query says what the topology does.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from topologies.nexmark.generator import Events, side_input

WINNING = """
    SELECT a.*, b.bidder, b.price, b.dateTime AS bid_dateTime, b.extra AS bid_extra
    FROM auction a JOIN bid b ON b.auction = a.id AND b.dateTime >= a.dateTime AND b.dateTime <= a.expires
    QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime, b.arrival DESC) = 1
"""
WINDOW = "make_timestamp(epoch_us({time}) // 10000000 * 10000000)"
OF_BID, OF_PERSON, OF_AUCTION = WINDOW.format(time="dateTime"), WINDOW.format(time="p.dateTime"), WINDOW.format(time="a.dateTime")
RANKS = {"rank1": "price < 10000", "rank2": "price >= 10000 AND price < 1000000", "rank3": "price >= 1000000"}
COUNTS = ", ".join(
    f"count({what}) {condition} AS {name}"
    for rank, condition in {"total": "", **{rank: f"FILTER (WHERE {test})" for rank, test in RANKS.items()}}.items()
    for name, what in ((f"{rank}_bids", "*"), (f"{rank}_bidders", "DISTINCT bidder"), (f"{rank}_auctions", "DISTINCT auction"))
)

QUERIES = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, CAST(price AS DECIMAL(20, 0)) * 0.908 AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """
        SELECT a.id, p.name, p.city, p.state FROM auction a JOIN person p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
    """,
    "q4": f"SELECT category, sum(price) // count(*) AS final FROM ({WINNING}) GROUP BY category",
    "q5": """
        WITH hop AS (
            SELECT auction, make_timestamp((epoch_us(dateTime) // 2000000 - step) * 2000000) AS starttime
            FROM bid, range(5) AS steps(step)
        ), counts AS (SELECT starttime, auction, count(*) AS num FROM hop GROUP BY ALL)
        SELECT starttime, starttime + INTERVAL 10 SECOND AS endtime, auction, num FROM counts
        QUALIFY num = max(num) OVER (PARTITION BY starttime)
    """,
    "q6": f"""
        WITH won AS ({WINNING}), ten AS (
            SELECT seller, price FROM won QUALIFY row_number() OVER (PARTITION BY seller ORDER BY bid_dateTime DESC, id DESC) <= 10
        ) SELECT seller, sum(price) // count(*) AS avg_price FROM ten GROUP BY seller
    """,
    "q7": f"""
        WITH highest AS (SELECT max(price) AS price, {OF_BID} AS start FROM bid GROUP BY start)
        SELECT auction, bidder, b.price, dateTime, extra
        FROM bid b JOIN highest h ON b.price = h.price AND dateTime BETWEEN start AND start + INTERVAL 10 SECOND
    """,
    "q8": f"""
        SELECT DISTINCT p.id, p.name, {OF_PERSON} AS starttime
        FROM person p JOIN auction a ON p.id = a.seller AND {OF_PERSON} = {OF_AUCTION}
    """,
    "q9": f"SELECT *, id AS auction FROM ({WINNING})",
    "q10": """
        SELECT auction, bidder, price, dateTime, extra, strftime(dateTime, '%Y-%m-%d') AS dt, strftime(dateTime, '%H:%M') AS hm
        FROM bid
    """,
    "q11": """
        WITH begins AS (
            SELECT *, coalesce(dateTime - lag(dateTime) OVER same > INTERVAL 10 SECOND, true) AS begins
            FROM bid WINDOW same AS (PARTITION BY bidder ORDER BY dateTime, arrival)
        ), numbered AS (
            SELECT *, sum(begins::INT) OVER (PARTITION BY bidder ORDER BY dateTime, arrival ROWS UNBOUNDED PRECEDING) AS visit FROM begins
        )
        SELECT bidder, count(*) AS bid_count, min(dateTime) AS starttime, max(dateTime) + INTERVAL 10 SECOND AS endtime
        FROM numbered GROUP BY bidder, visit
    """,
    "q12": f"SELECT bidder, {OF_BID} AS window_start, count(*) AS bid_count FROM bid GROUP BY ALL",
    "q13": "SELECT auction, bidder, price, dateTime, value FROM bid JOIN side_input ON auction % 10000 = key",
    "q14": """
        SELECT auction, bidder, CAST(price AS DECIMAL(20, 0)) * 0.908 AS price, dateTime, extra,
            CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour(dateTime) IN (7, 19) THEN 'otherTime' ELSE 'nightTime' END
                AS bidTimeType,
            len(extra) - len(replace(extra, 'c', '')) AS c_counts
        FROM bid WHERE price * 0.908 > 1000000 AND price * 0.908 < 50000000
    """,
    "q15": f"SELECT strftime(dateTime, '%Y-%m-%d') AS day, {COUNTS} FROM bid GROUP BY day",
    "q16": f"""
        SELECT channel, strftime(dateTime, '%Y-%m-%d') AS day, max(strftime(dateTime, '%H:%M')) AS minute, {COUNTS} FROM bid GROUP BY channel, day
    """,
    "q17": f"""
        SELECT auction, strftime(dateTime, '%Y-%m-%d') AS day, count(*) AS total_bids,
            {", ".join(f"count(*) FILTER (WHERE {test}) AS {rank}_bids" for rank, test in RANKS.items())},
            min(price) AS min_price, max(price) AS max_price, sum(price)::BIGINT // count(*) AS avg_price, sum(price)::BIGINT AS sum_price
        FROM bid GROUP BY auction, day
    """,
    "q18": """
        SELECT auction, bidder, price, channel, url, dateTime, extra FROM bid
        QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC, arrival DESC) = 1
    """,
    "q19": """
        SELECT auction, bidder, price, channel, url, dateTime, extra,
            row_number() OVER (PARTITION BY auction ORDER BY price DESC, dateTime, bidder DESC, channel DESC, url DESC, extra DESC) AS rank_number
        FROM bid QUALIFY rank_number <= 10
    """,
    "q20": """
        SELECT auction, bidder, price, channel, url, b.dateTime AS bid_dateTime, b.extra AS bid_extra, itemName, description, initialBid,
            reserve, a.dateTime AS auction_dateTime, expires, seller, category, a.extra AS auction_extra
        FROM bid b JOIN auction a ON b.auction = a.id WHERE category = 10
    """,
    "q21": """
        SELECT auction, bidder, price, channel, coalesce(
            MAP {'apple': '0', 'google': '1', 'facebook': '2', 'baidu': '3'}[lower(channel)],
            CASE WHEN contains(url, '&channel_id=') THEN split_part(url, '&channel_id=', 2) END
        ) AS channel_id FROM bid WHERE channel_id IS NOT NULL
    """,
    "q22": """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
        FROM bid
    """,
}


class Reference:
    """The events in a database, and the comparison of what a topology made of them with what a query says."""

    def __init__(self, events: Events) -> None:
        self._database = duckdb.connect(
            config={"threads": 2, "autoinstall_known_extensions": False, "autoload_known_extensions": False}
        )
        for name, table in {"person": events.person, "auction": events.auction, "bid": events.bid}.items():
            numbered = table.append_column("arrival", pa.array(range(table.num_rows), pa.int64()))
            self._database.register(name, without_zones(numbered))
        self._database.register("side_input", side_input())

    def rows(self, query: str) -> int:
        """How many rows a query has."""
        return int(self._rows(f"SELECT count(*) FROM ({QUERIES[query]})")[0][0])

    def difference(self, query: str, found: pa.Table) -> str:
        """The first rows that only one of both sides has, and how many there are; nothing if they have the same rows."""
        self._database.register("found", without_zones(found))
        self._rows(f"CREATE OR REPLACE TEMP TABLE expected AS {QUERIES[query]}")
        columns = ", ".join(row[0] for row in self._rows("DESCRIBE expected") if row[0] != "arrival")
        lines = []
        for text, some, others in (("not found", "expected", "found"), ("not expected", "found", "expected")):
            if rows := self._rows(f"SELECT {columns} FROM {some} EXCEPT ALL SELECT {columns} FROM {others}"):
                lines += [f"{len(rows)} rows were {text}, of ({columns}):", *map(str, rows[:3])]
        return "\n".join(lines)

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._database.execute(query).fetchall()


def newest(table: pa.Table, key: list[str]) -> pa.Table:
    """Of rows in the order of partition and offset the last one of each key, unless it is a tombstone."""
    numbered = table.append_column("_row", pa.array(range(table.num_rows), pa.int64()))
    last = numbered.group_by(key).aggregate([("_row", "max")])["_row_max"]
    rows = numbered.take(last)
    return rows.filter(pc.invert(rows["_deleted"])) if "_deleted" in rows.column_names else rows


def without_zones(table: pa.Table) -> pa.Table:
    """The same rows, with times in UTC as times without a zone, in microseconds."""
    fields = [pa.field(field.name, pa.timestamp("us")) if pa.types.is_timestamp(field.type) else field for field in table.schema]
    return table.cast(pa.schema(fields))
