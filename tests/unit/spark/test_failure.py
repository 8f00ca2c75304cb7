"""What is shown of an error: the message and frames of Python, none of the JVM's."""

from __future__ import annotations

from streamkit.spark.failure import without_jvm_frames


def test_frames_of_the_jvm_are_left_out():
    """Of what Spark says, messages and Python's frames stay."""
    said = (
        '[STREAM_FAILED] it failed\n  File "app.py", line 3, in look\n    at(3)\nValueError: no\n'
        "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:1)\n"
        "\tat java.base/java.lang.Thread.run(Thread.java:2)\n\t... 12 more\nCaused by: it\n\nJVM stacktrace:\nx.y\n\tat a.b(c:1)\n"
    )

    assert without_jvm_frames(said) == (
        '[STREAM_FAILED] it failed\n  File "app.py", line 3, in look\n    at(3)\nValueError: no\nCaused by: it'
    )
