"""What a closed consumer says, whatever it is asked."""

from __future__ import annotations

import pytest

from streamkit.errors import StreamKitError
from streamkit.log.opening import open_log

QUESTIONS = {
    "poll": lambda consumer: consumer.poll(),
    "position": lambda consumer: consumer.position(),
    "lag": lambda consumer: consumer.lag(),
    "seek": lambda consumer: consumer.seek("t", 0, 1),
    "seek_to_beginning": lambda consumer: consumer.seek_to_beginning(),
    "pause": lambda consumer: consumer.pause(),
}


@pytest.mark.parametrize(("group", "whose"), [(None, ""), ("g", " of group g")])
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_closed_consumer_says_that_it_is_closed(question, group, whose):
    """Whatever a closed consumer is asked about its partitions, it says that it is closed, and its group only if it has one."""
    with open_log(":memory:") as log:
        log.create_topic("t", "v int", partitions=1)
        consumer = log.consumer("t", group)
        consumer.poll(0)
        consumer.close()

        with pytest.raises(StreamKitError, match=f"this consumer{whose} is closed; make another one"):
            QUESTIONS[question](consumer)
