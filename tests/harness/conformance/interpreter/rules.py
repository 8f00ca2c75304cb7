"""Where StreamKit's results differ from Kafka Streams' on purpose: one switch each."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Rules:
    """Which of StreamKit's deviations hold. All off is Kafka Streams 4.3.0, all on is StreamKit."""

    time_of_inputs: bool = False
    """Stream time of an operator is the largest order key of the streams that feed it, not that of the records which reached it."""
    finals_when_time_passes: bool = False
    """Final results, rows without a match, and a join's buffer come just before the record that moves stream time, wherever it goes."""
    finals_at_once: bool = False
    """Final results do not wait for wall-clock time."""
    finals_are_met_when_given: bool = False
    """A join meets a final result once it has been given; in Kafka Streams it meets what the window has come to by then."""
    windows_are_kept: bool = False
    """A window is not lost because the retention of a store ended; a session takes records until stream time has passed it."""
    limits_when_time_passes: bool = False
    """A suppress lets rows go with the record that moves stream time past their limit, behind what this record causes."""
    suppress_waits_for_closed_windows: bool = False
    """A suppress lets a window go when it takes no record any more, also one that contains its end."""
    joined_rows_vanish_together: bool = False
    """A join deletes its row also if one record deletes it on both sides at once; in Kafka Streams neither finds the other in a shared store."""
    deletions_are_versions: bool = False
    """A table with history remembers a deletion at the time of the very row it deletes; Kafka Streams forgets it if no row was before."""
    old_is_last_emitted: bool = False
    """The old value that a suppress sends is the one it sent last, not the one that it held back last."""
    rows_that_were_sent_have_times: bool = False
    """A join meets the row that a suppress sent last with its time; Kafka Streams does not know that while another is held back."""
    first_result_replaces_nothing: bool = False
    """The first result of an aggregate has no old value; in Kafka Streams that is the initial one, or that of the window it is a copy of."""
    sessions_replace: bool = False
    """A session of one moment that takes a record of that moment replaces what it was; in Kafka Streams its change has no old value."""
    changes_have_old: bool = False
    """Who reads the changes of a table gets old values, also where no operator asks for them."""
    joins_replace_what_they_gave: bool = False
    """The old value of a join of tables is what it gave last; in Kafka Streams it is the old value of one side with the other as it is now."""
    partners_are_kept_by_stream_time: bool = False
    """A join of streams keeps records by its stream time, as long as one in time may meet them; Kafka Streams by that of their side."""
    windows_begin_before_1970: bool = False
    """The window of a join may lie before 1970; Kafka Streams moves its bounds to that moment, so records of it meet what they should not."""
    self_joins_are_joins: bool = False
    """A self-join is never optimised, so a left or outer one gives rows without a match."""

    waits_end_with_history: bool = False
    """A record that waits for a table is joined before the table forgets its time; Kafka Streams finds nothing when the wait is over."""
    results_of_the_past_are_awaited: bool = False
    """Windows and joins over what comes later than its time wait longer by that: final results, and rows that waited for a match or a table."""
    tables_take_no_record_of_nothing: bool = False
    """A record of a table with neither key nor value cannot be sent; in Kafka Streams it comes, and is dropped, but moves stream time."""
    every_answer_counts: bool = False
    """A foreign-key join gives a result for each change of a left row, and one alone if a record changes the right row, too.
    Kafka Streams drops an answer if the row has changed meanwhile, which it sees by its value."""
    keys_are_in_order_of_value: bool = False
    """Of what comes at one moment, negative keys are first; in Kafka Streams bytes compare without a sign."""

    @property
    def time_gives_results(self) -> bool:
        """Whether what is due comes when time passes alone, before the record that moves it has reached anything."""
        return self.time_of_inputs and self.finals_when_time_passes

    @classmethod
    def kafka(cls) -> Rules:
        """What Kafka Streams 4.3.0 does."""
        return cls()

    @classmethod
    def streamkit(cls) -> Rules:
        """What StreamKit promises."""
        return cls(**dict.fromkeys(cls.names(), True))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The switches."""
        return tuple(one.name for one in fields(cls))

    def without(self, name: str) -> Rules:
        """The same rules, but for one switch that is off."""
        return replace(self, **{name: False})
