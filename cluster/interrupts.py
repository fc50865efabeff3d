"""Ctrl-C and SIGTERM between two records rather than inside one: what is committed is whole records only.

Python runs a signal's handler between any two instructions, so an exception that it raises would come out of the middle of
an operator or of a commit. While a job runs on the main thread, the first signal only asks it to stop; once it has
committed and stopped, the handler that was there before gets the signal. A second one goes to that handler at once:
nothing is committed then, and the next run does that part again.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Turn the first signal into `stop()`. Yields a function that passes it on, to be called after the end."""
    first: list[tuple[Callable[[int, Any], Any], int, Any]] = []

    def pass_on() -> None:
        for handler, number, frame in first:
            handler(number, frame)

    if threading.current_thread() is not threading.main_thread():
        yield pass_on
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = {number: handler for number, handler in before.items() if callable(handler)}

    def handle(number: int, frame: Any) -> None:
        handler: Any = ours[signal.Signals(number)]
        if first:
            handler(number, frame)
        first.append((handler, number, frame))
        stop()

    for number in ours:
        signal.signal(number, handle)
    try:
        yield pass_on
    finally:
        for number in ours:
            signal.signal(number, before[number])
