"""PostgreSQL to Delta Lake and Kafka by a topology that is killed twice: the sums are equal in the end. `make demo-cdc` runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
from confluent_kafka import Consumer
from deltalake import DeltaTable

import streamkit as sk

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.kit.postgres import Server, binaries  # noqa: E402
from tests.kit.servers.kafka import start_broker  # noqa: E402
from tests.kit.waiting import wait_until  # noqa: E402

PAYMENTS = 2_000
Sums = dict[str, int]


def main() -> None:
    """Start the servers, run and kill the topology, and compare."""
    programs, broker = binaries(), start_broker()
    if programs is None or broker is None:
        sys.exit("the demonstration needs PostgreSQL (initdb, postgres) and Kafka's broker, by Maven")
    server = Server(programs)
    try:
        with tempfile.TemporaryDirectory() as folder:
            demonstrate(f"postgresql://streamkit@/postgres?host={server.folder}", broker.address, Path(folder))
    finally:
        server.stop()
        broker.stop()


def demonstrate(shop: str, broker: str, folder: Path) -> None:
    """Pay, kill the topology twice in the midst of it, and compare the sums of all three."""
    lake, log = folder / "lake", folder / "log"
    with sk.open_log(log):
        pass
    environment = {**os.environ, "SHOP": shop, "BROKER": broker, "LAKE": str(lake), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "topologies" / "connectors" / "sales.py"), "--log", str(log), "--local"]
    with psycopg.connect(shop, autocommit=True) as connection:
        connection.execute("CREATE TABLE payments (id bigserial PRIMARY KEY, customer text, amount bigint)")
        for time in ("first", "second"):
            pay(connection)
            run_and_kill(command, environment, lake, connection)
            print(f"killed for the {time} time, Delta has {sum(in_delta(lake).values()):,}")
        pay(connection)
        subprocess.run([*command, "--once"], env=environment, check=True)
        expected = {
            name: int(total) for name, total in connection.execute("SELECT customer, sum(amount) FROM payments GROUP BY 1")
        }
    for name, found in (("Delta", in_delta(lake)), ("Kafka", in_kafka(broker))):
        print(
            f"PostgreSQL {sum(expected.values()):,}, {name} {sum(found.values()):,}: {'equal' if found == expected else 'DIFFERENT'}"
        )
        if found != expected:
            sys.exit(1)


def pay(connection: psycopg.Connection) -> None:
    """Payments of ten customers, a transaction each hundred."""
    for batch in range(PAYMENTS // 100):
        rows = [(f"customer {n % 10}", n * n % 1_000) for n in range(100 * batch, 100 * batch + 100)]
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany("INSERT INTO payments (customer, amount) VALUES (%s, %s)", rows)


def run_and_kill(command: list[str], environment: dict[str, str], lake: Path, connection: psycopg.Connection) -> None:
    """Run the topology until Delta has more than before, pay again, and kill it in the midst of that."""
    before = in_delta(lake)
    with subprocess.Popen(command, env=environment) as process:
        try:
            wait_until(lambda: in_delta(lake) != before, 120)
            pay(connection)
        finally:
            process.kill()


def in_delta(lake: Path) -> Sums:
    if not DeltaTable.is_deltatable(str(lake)):
        return {}
    return {row["customer"]: row["total"] for row in DeltaTable(str(lake)).to_pyarrow_table().to_pylist()}


def in_kafka(broker: str) -> Sums:
    """The newest total of each customer."""
    settings = {
        "bootstrap.servers": broker,
        "group.id": "demo",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    consumer, found, silent = Consumer(settings), {}, 0
    consumer.subscribe(["totals"])
    while silent < 5:
        message = consumer.poll(2.0)
        silent = silent + 1 if message is None else 0
        if message is not None and message.error() is None:
            record = json.loads(message.value())
            found[record["customer"]] = record["total"]
    consumer.close()
    return found


if __name__ == "__main__":
    main()
