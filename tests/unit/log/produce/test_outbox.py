"""Promises of a producer that threads share: one commit for many sends, time limits, bounded memory, receipts that wait."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref

import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.errors import BufferFullError, ConfigError, FencedError, StorageFullError, StreamKitError
from streamkit.log.opening import open_log
from streamkit.log.produce import outbox
from streamkit.log.produce.producer import Producer
from streamkit.log.produce.producer_settings import ProducerSettings
from streamkit.log.produce.receipt import Receipt
from tests.kit.faults import FaultyStorage

pytestmark = pytest.mark.usefixtures("slabs_in_files")

ANYWHERE = outbox._anywhere  # before the tests as a whole pin it


@pytest.fixture
def log():
    found = open_log(":memory:", HandClock(1000))
    found.create_topic("t", "user string, n bigint", key="user", partitions=3)
    found.create_topic("plain", "n bigint", partitions=1)
    return found


def numbers_in(log, topic="plain"):
    return log.read(topic)["n"].to_pylist()


def producer_of(log, storage=None, **settings):
    return Producer(storage or log.storage, log.catalog, log.clock, settings=ProducerSettings(**settings))


def in_threads(count, work):
    """Run the work in threads that start together; what it raised."""
    errors = []
    start = threading.Barrier(count)

    def run(number):
        start.wait()
        try:
            work(number)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return errors


class SlowStorage(FaultyStorage):
    """A storage whose files take as long as a test says."""

    def __init__(self, storage, seconds):
        super().__init__(storage)
        self.seconds = seconds
        self.created = 0

    def create(self, path, parts):
        time.sleep(self.seconds)
        self.created += 1
        return super().create(path, parts)


def test_many_small_sends_share_a_commit(log):
    """Threads that each wait for their own row: far fewer slabs than rows, every row once, each receipt with the offset of its row."""
    storage = SlowStorage(log.storage, 0.01)
    producer = producer_of(log, storage)
    offsets = {}

    def work(thread):
        for step in range(10):
            number = thread * 10 + step
            offsets[number] = producer.send("t", {"user": f"u{number}", "n": number}).result(30)

    assert in_threads(16, work) == []
    rows = {row["n"]: (row["_partition"], row["_offset"]) for row in log.read("t").to_pylist()}
    assert sorted(rows) == list(range(160))
    assert {number: {partition: (offset, offset + 1)} for number, (partition, offset) in rows.items()} == offsets
    assert storage.created < 60


def test_each_thread_keeps_its_order(log):
    """Rows and batches of one thread stand in a partition as it sent them, whatever others do."""
    producer = producer_of(log, batch_size=20_000)

    def work(thread):
        for step in range(0, 400, 2):
            producer.send("plain", {"n": thread * 1000 + step})
            producer.send_batch("plain", [{"n": thread * 1000 + step + 1}])
        producer.flush()

    assert in_threads(4, work) == []
    found = numbers_in(log)
    assert sorted(found) == [thread * 1000 + step for thread in range(4) for step in range(400)]
    for thread in range(4):
        mine = [number for number in found if number // 1000 == thread]
        assert mine == sorted(mine)


def test_producers_of_one_row_each_fill_every_partition(log, monkeypatch):
    """A producer begins with its rows without a key in any partition, not always in the same one."""
    monkeypatch.setattr(outbox, "_anywhere", ANYWHERE)
    log.create_topic("wide", "n bigint", partitions=4)
    for number in range(100):
        with log.producer() as producer:
            producer.send("wide", {"n": number})

    assert min(log.end_offsets("wide").values()) > 0 and len(log.read("wide")) == 100


def test_rows_linger_and_go_by_themselves(log):
    """With linger_ms rows become visible without a flush, after that time and not before; callbacks hear of it."""
    with log.producer(linger_ms=600_000) as producer:
        receipt = producer.send("t", {"user": "u", "n": 0})
        producer.send("t", {"user": "v", "n": 1})
        assert not receipt.wait(0.1) and len(log.read("t")) == 0
    assert len(log.read("t")) == 2 and len(log.storage.list("slabs")) == 1
    heard: list[Receipt] = []
    with log.producer(linger_ms=150) as producer:
        begun = time.monotonic()
        receipt = producer.send("plain", {"n": 1}, callback=heard.append)
        producer.send("plain", {"n": 2})
        assert receipt.result(30) == {0: (0, 1)}
        assert 0.1 < time.monotonic() - begun < 20
        producer.flush()
        assert numbers_in(log) == [1, 2]
        for _ in range(1000):
            if heard:
                break
            time.sleep(0.01)
        assert heard == [receipt] and receipt.is_done and receipt.error is None


def test_a_full_batch_does_not_linger(log):
    """A batch of batch_size goes at once, however long rows may linger."""
    producer = producer_of(log, linger_ms=600_000, batch_size=4_000)
    receipt = producer.send_batch("plain", pa.table({"n": range(500)}))
    assert receipt.result(30) == {0: (0, 500)}
    producer.close()


def test_the_thread_ends_with_its_producer(log):
    """The background thread is gone after the with block, and with a producer that nobody holds any more."""

    def threads():
        return [thread for thread in threading.enumerate() if thread.name == "streamkit-producer"]

    with log.producer(linger_ms=1) as producer:
        producer.send("plain", {"n": 1}).result(30)
        assert len(threads()) == 1
    assert threads() == []
    producer = log.producer(linger_ms=1)
    producer.send("plain", {"n": 2}).result(30)
    gone = weakref.ref(producer._outbox)
    del producer
    for _ in range(500):
        gc.collect()
        if not threads():
            break
        time.sleep(0.01)
    assert threads() == [] and gone() is None


def test_waiting_for_a_receipt_flushes(log):
    """Without linger_ms nobody else would; inside a transaction it is refused, since only the end of it settles."""
    producer = log.producer()
    assert producer.send("plain", {"n": 1}).result() == {0: (0, 1)}
    with producer.transaction():
        receipt = producer.send("plain", {"n": 2})
        with pytest.raises(ConfigError, match="settled at the end of its transaction"):
            receipt.wait()
    assert receipt.result() == {0: (1, 2)}


def test_back_pressure_blocks_then_refuses(log):
    """Beyond buffer_memory a send waits for the commit on its way; when that takes longer than max_block_ms, it is refused, retryably."""
    storage = SlowStorage(log.storage, 0.15)
    producer = producer_of(log, storage, linger_ms=0, batch_size=4_000, buffer_memory=8_000, max_block_ms=20_000)
    batch = pa.table({"n": range(300)})
    for _ in range(4):
        producer.send_batch("plain", batch)
    assert storage.created >= 1
    impatient = producer_of(log, storage, linger_ms=0, batch_size=4_000, buffer_memory=8_000, max_block_ms=50)
    with pytest.raises(BufferFullError, match=r"no room for 4800 bytes after 50 ms: .* of buffer_memory=8000") as refused:
        for _ in range(4):
            impatient.send_batch("plain", batch)
    assert refused.value.is_retryable
    producer.close()
    impatient.close()
    assert len(numbers_in(log)) % 300 == 0 and len(numbers_in(log)) >= 1500


def test_a_full_memory_does_not_linger(log):
    """When there is no room for more, what waits leaves at once, however long it may linger."""
    producer = producer_of(log, linger_ms=600_000, batch_size=8_000, buffer_memory=8_000, max_block_ms=20_000)
    receipts = [producer.send_batch("plain", pa.table({"n": range(300)})) for _ in range(4)]
    assert [receipt.result(30) for receipt in receipts[:3]] == [{0: (start, start + 300)} for start in (0, 300, 600)]
    producer.close()


def test_memory_is_bounded_by_the_setting(log):
    """However fast threads send, what waits never exceeds buffer_memory by more than what they hold in their hands."""
    producer = producer_of(log, SlowStorage(log.storage, 0.01), linger_ms=0, batch_size=20_000, buffer_memory=50_000)
    largest = []

    def work(thread):
        for step in range(300):
            producer.send("plain", {"n": thread * 1000 + step})
            largest.append(producer._outbox.bytes)

    assert in_threads(4, work) == []
    producer.close()
    assert sorted(numbers_in(log)) == [thread * 1000 + step for thread in range(4) for step in range(300)]
    assert max(largest) <= 50_000


def test_a_batch_beyond_the_memory_is_taken_alone(log):
    """A table larger than buffer_memory goes through when nothing else waits."""
    producer = producer_of(log, batch_size=1_000, buffer_memory=2_000)
    for _ in range(3):
        producer.send_batch("plain", pa.table({"n": range(1000)}))
    producer.close()
    assert len(numbers_in(log)) == 3000


def test_a_disk_that_recovers_loses_nothing(log):
    """While the disk is full the background thread tries again and again, sends say why they are refused, and then all rows are there once."""
    storage = FaultyStorage(log.storage)
    producer = producer_of(log, storage, linger_ms=0, batch_size=1_000, buffer_memory=2_000, max_block_ms=300)
    storage.fault.arm("full", 1, lasts=True)
    receipts = []
    with pytest.raises(BufferFullError, match="the last commit failed: no room to write") as refused:
        for number in range(1000):
            receipts.append(producer.send("plain", {"n": number}))
    assert isinstance(refused.value.__cause__, StorageFullError)
    assert numbers_in(log) == [] and not any(receipt.is_done for receipt in receipts)
    storage.fault.arm(None)
    assert [receipt.result(30) for receipt in receipts] == [{0: (at, at + 1)} for at in range(len(receipts))]
    producer.close()
    assert numbers_in(log) == list(range(len(receipts)))


def test_a_send_that_cannot_make_room_takes_nothing(log):
    """Without linger_ms the send that finds a full buffer commits it, and raises what that raised: its own row was not taken."""
    storage = FaultyStorage(log.storage)
    producer = producer_of(log, storage, batch_size=1_000)
    producer.send_batch("plain", pa.table({"n": range(100)}))
    storage.fault.arm("full", 1)
    with pytest.raises(StorageFullError):
        producer.send("plain", {"n": 100})
    producer.send("plain", {"n": 100})
    producer.flush()
    assert numbers_in(log) == list(range(101))


def test_a_fence_reaches_everyone(log):
    """When the producer is opened elsewhere, waiting receipts, callbacks and the next call all say so, in background too."""
    producer = log.producer("p", linger_ms=50)
    heard: list[Receipt] = []
    receipt = producer.send("plain", {"n": 1}, callback=heard.append)
    log.producer("p")
    with pytest.raises(FencedError):
        receipt.result(30)
    for _ in range(500):
        try:
            producer.send("plain", {"n": 2})
        except FencedError:
            break
        time.sleep(0.01)
    else:
        pytest.fail("the producer went on")
    assert heard[0] is receipt and isinstance(receipt.error, FencedError) and receipt.offsets is None
    assert numbers_in(log) == [] and log.storage.list("slabs") == ()


def test_a_callback_that_raises_harms_nobody(log, caplog):
    """The error of a callback is logged, the rest are called, and the rows are there."""
    heard = []
    producer = log.producer()
    producer.send("plain", {"n": 1}, callback=lambda receipt: 1 / 0)
    producer.send("plain", {"n": 2}, callback=lambda receipt: heard.append(receipt.offsets))
    producer.flush()
    assert heard == [{0: (1, 2)}] and numbers_in(log) == [1, 2]
    assert "ZeroDivisionError" in caplog.text


def test_a_result_can_time_out(log):
    """A receipt that is not settled in time raises TimeoutError, and is settled later all the same."""
    producer = producer_of(log, SlowStorage(log.storage, 0.2), linger_ms=0)
    receipt = producer.send("plain", {"n": 1})
    with pytest.raises(TimeoutError, match="still on their way"):
        receipt.result(0.01)
    assert receipt.result(30) == {0: (0, 1)}
    producer.close()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"linger_ms": -1}, "linger_ms=-1; expected a finite number of at least 0"),
        ({"linger_ms": float("inf")}, "linger_ms=inf; expected a finite number"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 1.5}, "batch_size=1.5"),
        ({"max_block_ms": None}, "max_block_ms=None"),
        ({"buffer_memory": "1"}, "buffer_memory='1'"),
        ({"batch_size": 2, "buffer_memory": 1}, "a batch would never be full"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(log, settings, reason):
    """A wrong setting is named with its value when the producer is made."""
    with pytest.raises(ConfigError, match=reason):
        log.producer(**settings)


def test_a_fork_leaves_the_producer_behind(log):
    """In a forked child the producer says that it is not there, instead of waiting for a thread that does not exist."""
    producer = log.producer(linger_ms=50)
    receipt = producer.send("plain", {"n": 1})
    if not (child := os.fork()):
        code = 1
        try:
            producer.send("plain", {"n": 2})
        except StreamKitError as error:
            code = 0 if "spawned process" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert receipt.result(30) == {0: (0, 1)}
    producer.close()
