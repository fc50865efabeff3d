"""One thread per split: it runs the source's generator, which may block, and hands over what it yields.

The queue between is short, so a source is never far ahead of what is processed. Everything that a source does wrong comes
out on the runner's side, under its topic's name.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol

from raystreams.cluster.bindings import AnySource
from raystreams.cluster.connectors.base import Wait
from raystreams.cluster.errors import SourceError
from raystreams.cluster.user_code import describe, place_of
from raystreams.stores.errors import RaystreamsError

AHEAD = 8
"""Batches that a source may be ahead."""


class Ended:
    """The generator has returned."""


class Failed:
    """The source raised."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def failure_of(error: BaseException, topic: str, split: str) -> BaseException:
    """Return what is told of an error: one of a source's own code under the source's name, ours and the system's as they are."""
    if isinstance(error, (RaystreamsError, OSError)) or not isinstance(error, Exception):
        return error
    told = SourceError(f"the source of {topic!r} failed in the split {split!r}: {place_of(error, None)}: {describe(error)}")
    told.__cause__ = error
    return told


class Reader(Protocol):
    """Hands over what a split yields."""

    def take(self) -> Any:
        """The next batch, `Wait`, `Ended` or `Failed`; None if there is nothing yet."""
        ...

    @property
    def has_more(self) -> bool:
        """Whether `take` has something to give now."""
        ...

    def stop(self) -> None:
        """Read no further."""
        ...


class SplitReader:
    """Reads one split from a position on."""

    def __init__(self, source: AnySource, split: str, position: Any, ready: Callable[[], None]) -> None:
        self._source, self._split, self._position, self._ready = source, split, position, ready
        self._items: queue.Queue[Any] = queue.Queue(AHEAD)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"read {split}", daemon=True)
        self._thread.start()

    def take(self) -> Any:
        """The next batch, `Wait`, `Ended` or `Failed`; None if there is nothing yet."""
        try:
            return self._items.get_nowait()
        except queue.Empty:
            return None

    @property
    def has_more(self) -> bool:
        """Whether `take` has something to give now."""
        return not self._items.empty()

    def stop(self, timeout: float = 5.0) -> None:
        """Close the generator at its next yield, and wait for it."""
        self._stop.set()
        while self._thread.is_alive() and timeout > 0:
            self.take()  # makes room for a reader that waits to hand something over
            self._thread.join(0.02)
            timeout -= 0.02

    def _run(self) -> None:
        try:
            batches = self._source.read(self._split, self._position)
            try:
                for item in batches:
                    self._put(item)
                    if self._stop.is_set():
                        return
                    if isinstance(item, Wait) and self._stop.wait(item.seconds):
                        return
            finally:
                close = getattr(batches, "close", None)
                if close is not None:
                    close()
        except BaseException as error:  # the runner's thread raises it
            self._put(Failed(error))
            return
        self._put(Ended())

    def _put(self, item: Any) -> None:
        while not self._stop.is_set():
            try:
                self._items.put(item, timeout=0.1)
            except queue.Full:
                continue
            self._ready()
            return
