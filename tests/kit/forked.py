"""What happens in a forked child, for the tests of what may cross a fork."""

from __future__ import annotations

import os


def outcome_in_child(work):
    """What `work` returns in a forked child, as text."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            os.write(writing, str(work()).encode())
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text
