"""What befalls the parts of a work that goes on past each of them: one that is damaged must not keep the others from their turn."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

from streamkit.errors import EpochFailedError, FencedError, StorageFullError, StreamKitError, TopicNotFoundError

NAMED_MAX = 10

_logger = logging.getLogger(__name__)


@final
class Failures:
    """Failures of a work that goes on: those to be mended, and those that the next time settles, since others were at it."""

    def __init__(self) -> None:
        self._first: StreamKitError | None = None
        self._others: list[str] = []  # as words: an error holds on to the frames, and with these the files, that it came through
        self._left: EpochFailedError | None = None

    @property
    def is_disk_full(self) -> bool:
        """Whether something found no room, so that what needs some is best left for another time."""
        return isinstance(self._first, StorageFullError)

    @contextmanager
    def noted(self, work: str | None = None, *, is_beside_catalog: bool = False) -> Iterator[None]:
        """
        Note what goes wrong in the block, and log it with the words for its `work`, unless it tells of that itself.

        Raised is what is true of all that is behind the block too: FencedError, TopicNotFoundError, and StreamKitError itself,
        by which a catalog says that it cannot be reached, unless the block may fail without it.
        """
        try:
            yield
        except (FencedError, TopicNotFoundError):
            raise
        except EpochFailedError as error:
            self._left = self._left or error
            if work is not None:
                _logger.info("the %s is left for the next time: %s", work, str(error))
        except StreamKitError as error:
            if type(error) is StreamKitError and not is_beside_catalog:
                raise
            self._add(error)
            if work is not None:
                _logger.info("the %s failed: %s", work, str(error))

    def _add(self, error: StreamKitError) -> None:
        """Keep the first, but for a full disk, which comes before all others."""
        if self._first is None:
            self._first = error
        elif isinstance(error, StorageFullError) and not self.is_disk_full:
            self._others.insert(0, str(self._first))
            self._first = error
        else:
            self._others.append(str(error))

    def raise_failed(self) -> None:
        """Raise the first that is to be mended, if there is one, with a note of the others."""
        if self._first is None:
            return
        if self._others and sys.version_info >= (3, 11):
            self._first.add_note(f"{len(self._others)} more failed: {'; '.join(self._others[:NAMED_MAX])}")
        raise self._first

    def raise_any(self) -> None:
        """Raise the first that is to be mended, else the first that others caused, if there is one."""
        self.raise_failed()
        if self._left is not None:
            raise self._left
