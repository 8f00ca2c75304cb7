"""What goes on while streams are open: one place that hears of commits, and one look for all who watch the same thing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol, TypeVar, final

from streamkit.connectors.files.record_lines import json_text
from streamkit.log.log import Log
from streamkit.serve.answers import Event, problem_event
from streamkit.serve.refusals import refusal_of
from streamkit.serve.sql_sessions import OpenQuery, SqlSessions
from streamkit.serve.writer import Writer

Result = TypeVar("Result")
LISTEN_SECONDS = 1.0  # between two looks for an order to stop, of the thread that listens
TAIL_PAUSE_SECONDS = 0.2  # between two looks at a topic that others write to all the time
STATE_PAUSE_SECONDS = 1.0  # between two states of an application
ALIVE_SECONDS = 5.0  # so often something is written, by which a client that has gone is noticed
QUEUED_EVENTS = 16  # for a client that reads slowly; what does not fit is left out, and it is told so
QUEUED_CHARACTERS = 4 << 20  # of these events; one alone always fits
ALIVE = ": alive\n\n"


@final
class Commits:
    """Hears of commits for all who wait in the loop; the first who waits begins it."""

    def __init__(self, log: Log, threads: ThreadPoolExecutor) -> None:
        self._log, self._threads = log, threads
        self._task: asyncio.Task[None] | None = None
        self._next = asyncio.Event()

    def next(self) -> asyncio.Event:
        """What is set by the next commit; it is taken before a look, so that a commit meanwhile is not missed."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._listen())
        return self._next

    async def _listen(self) -> None:
        loop, watch = asyncio.get_running_loop(), self._log.catalog.watch()
        while True:
            if await loop.run_in_executor(self._threads, watch.wait, LISTEN_SECONDS):
                heard, self._next = self._next, asyncio.Event()
                heard.set()
                await asyncio.sleep(TAIL_PAUSE_SECONDS / 4)

    def close(self) -> None:
        """Hear no more; who waits is woken."""
        if self._task is not None:
            self._task.cancel()
        self._next.set()


async def heard_within(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most so long."""
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


@final
class Viewer:
    """Who reads a stream: what is written for it waits in a short queue; None is the end."""

    def __init__(self, query: Hashable) -> None:
        self.query = query
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._left_out: list[Event] = []
        self._characters = 0  # of what is in the queue

    def offer(self, event: Event) -> None:
        """Write an event for it; without room it is left out, and who reads is told so in the place of it."""
        has_room = self._queue.empty() or self._characters + len(event.text) <= QUEUED_CHARACTERS
        if self._queue.qsize() >= QUEUED_EVENTS or not has_room:
            self._left_out.append(replace(event, data=""))
            return
        self._tell_left_out()
        self._put(event.text)

    def end(self, last: str | None = None) -> None:
        """Nothing comes any more, but the words that say why."""
        self._tell_left_out()
        if last is not None:
            self._put(last)
        self._queue.put_nowait(None)

    def _put(self, text: str) -> None:
        self._characters += len(text)
        self._queue.put_nowait(text)

    def _tell_left_out(self) -> None:
        if self._left_out:
            records, events = sum(one.records for one in self._left_out), len(self._left_out)
            counted = {"records": records} if records else {"events": events}
            why = json_text({**counted, "why": "the client reads too slowly"})
            self._put(Event("skipped", why, self._left_out[-1].id).text)
            self._left_out = []

    async def each(self) -> AsyncIterator[str]:
        """The events, and a comment where none comes for a while."""
        while True:
            if self._queue.empty():
                self._tell_left_out()
            try:
                text = await asyncio.wait_for(self._queue.get(), ALIVE_SECONDS)
            except asyncio.TimeoutError:
                yield ALIVE
                continue
            if text is None:
                return
            self._characters -= len(text)
            yield text


class Sight(Protocol):
    """What several watch: a look at it, in a thread, gives the new events for each of their queries."""

    def look(self, queries: Collection[Any]) -> Mapping[Any, Sequence[Event]]:
        """The events since the look before."""


@final
class Watching:
    """All who watch one thing: there are looks for them as long as there are some, after each commit, or once a second."""

    def __init__(self, sight: Sight, run: Callable[..., Awaitable[Any]], commits: Commits | None) -> None:
        self.sight = sight
        self._run, self._commits = run, commits
        self._viewers: set[Viewer] = set()
        self._is_closed = False
        self._at_work = asyncio.Lock()  # a viewer comes between two looks, so that it misses nothing of the later one
        self._task: asyncio.Task[None] | None = None

    async def events(self, query: Hashable, first: Callable[[bool], Awaitable[Sequence[Event]]]) -> AsyncIterator[str]:
        """
        The events of a new viewer; `first` gives those that come before what the next look finds.

        It is told whether nobody else watches, so that the last look may be long ago.
        """
        viewer = Viewer(query)
        async with self._at_work:
            if self._viewers and self._commits is not None:
                await self._look()  # so what came since the last look is for this viewer not news, which may be left out
            begun = await first(self.is_idle)
            self._viewers.add(viewer)
            if self._is_closed:
                viewer.end()
        try:
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._watch())
            for event in begun:
                yield event.text
            async for text in viewer.each():
                yield text
        finally:
            self._viewers.discard(viewer)

    async def _watch(self) -> None:
        if self._commits is None:  # the first viewer has just had a state
            await asyncio.sleep(STATE_PAUSE_SECONDS)
        while self._viewers:
            begun_s = time.monotonic()
            commit = None if self._commits is None else self._commits.next()  # before the look
            async with self._at_work:
                await self._look()
            if commit is not None:
                await heard_within(commit, LISTEN_SECONDS)
            pause_s = STATE_PAUSE_SECONDS if commit is None else TAIL_PAUSE_SECONDS
            await asyncio.sleep(max(0.0, begun_s + pause_s - time.monotonic()))

    async def _look(self) -> None:
        """Give all who watch what came since the look before; an error is the last that they are told."""
        try:
            found = await self._run(self.sight.look, {viewer.query for viewer in self._viewers})
        except Exception as error:  # noqa: BLE001  all who watch are told
            self.end(problem_event(refusal_of(error)))
            return
        for viewer in self._viewers:
            for event in found.get(viewer.query, ()):
                viewer.offer(event)

    @property
    def is_idle(self) -> bool:
        return not self._viewers

    def end(self, last: str | None = None) -> None:
        """Nothing comes any more for those who watch."""
        for viewer in self._viewers:
            viewer.end(last)
        self._viewers.clear()

    def close(self) -> None:
        """Nothing comes any more for anybody, nor for those who begin now."""
        self._is_closed = True
        self.end()


@final
class Live:
    """The streams of a server, and the threads of all its work; for the loop of the server alone, except `end`."""

    def __init__(self, log: Log, looks: int, changes: int, check: Callable[[], None], sql: SqlSessions) -> None:
        self._log, self._check, self.sql = log, check, sql
        self._threads = ThreadPoolExecutor(looks, "streamkit-serve-look")
        self._live_threads = ThreadPoolExecutor(4, "streamkit-serve-live")  # of their own: a slow look stops no stream
        self._listening = ThreadPoolExecutor(1, "streamkit-serve-commits")
        self._changing = ThreadPoolExecutor(changes, "streamkit-serve-change")
        self._pushing = ThreadPoolExecutor(looks, "streamkit-serve-push")  # a query that goes on may compute for long
        self.is_ending = False
        self.commits = Commits(log, self._listening)
        self._watched: dict[Hashable, Watching] = {}
        self._at_work: list[None] = []  # one for each look, by the threads
        self.looks = 0  # for which somebody waits
        self.changes = 0
        self.writer = Writer(log)

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """What `work` gives, in a thread for looks."""
        self.looks += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._counted, work, *arguments)
        finally:
            self.looks -= 1

    async def run_change(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """What `work` gives, in a thread for changes; one that has begun goes on to its end, whether anybody waits for it or not."""
        self.changes += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._changing, self._counted, work, *arguments)
        finally:
            self.changes -= 1

    def _counted(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """A look; who gave up waiting for it does not end it."""
        self._at_work.append(None)
        try:
            return work(*arguments)
        finally:
            self._at_work.pop()

    @property
    def is_at_work(self) -> bool:
        """Whether a look goes on, also one for which nobody waits."""
        return bool(self._at_work)

    async def run_live(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """What `work` gives, in a thread for streams; each look first sees whether the log is there."""
        return await asyncio.get_running_loop().run_in_executor(self._live_threads, self._checked, work, *arguments)

    def _checked(self, work: Callable[..., Result], *arguments: Any) -> Result:
        self._check()
        return work(*arguments)

    async def run_push(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """What `work` gives, in a thread for queries that go on; each look first sees whether the log is there."""
        return await asyncio.get_running_loop().run_in_executor(self._pushing, self._checked, work, *arguments)

    def leave_push(self, query: OpenQuery) -> None:
        """End a query that goes on, in a thread that nobody waits for."""
        with suppress(RuntimeError):  # the server has ended, and its sessions end all
            self._pushing.submit(self.sql.leave, query)

    def watching(self, name: Hashable, sight: Callable[[], Sight], *, by_commits: bool) -> Watching:
        """Those who watch the thing of a name; the first one makes the sight."""
        self._watched = {known: one for known, one in self._watched.items() if known == name or not one.is_idle}
        if name not in self._watched:
            self._watched[name] = Watching(sight(), self.run_live, self.commits if by_commits else None)
        return self._watched[name]

    def end(self) -> None:
        """End all streams."""
        self.is_ending = True
        self.commits.close()
        for watching in self._watched.values():
            watching.close()

    def close(self) -> None:
        """Wait for no thread: looks change nothing, and a change is one transaction, so it is made or not."""
        self._log.catalog.end_waits()
        self.writer.close()
        for threads in (self._threads, self._live_threads, self._listening, self._changing, self._pushing):
            threads.shutdown(wait=False, cancel_futures=True)
        self.sql.close()
