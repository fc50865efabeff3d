"""Requests to tasks that may be starting, restoring, or gone: asked again, after another look at where they are.

    Directory   who answers for a partition: its owner, and standbys, which may be behind
    Pending     one request under way, to wait for on a thread or in an event loop

Only NotAvailableError with `retry` is retried, until the timeout. With `stale_ok` owner and standbys are tried in turn. The
pages of a scan come from the task that began it, and are not retried: another one has another snapshot.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Protocol

from raystreams.cluster.errors import NotAvailableError
from raystreams.cluster.task_reads import ReadRequest, ReadResponse

Ask = Callable[[ReadRequest], "Future[ReadResponse]"]
"""Sends a request to one task, and doesn't wait. What the task raises is in the future; one that is gone, or can't be
reached, is a NotAvailableError with `retry`."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


class Directory(Protocol):
    """Where the tasks of a job are. A partition of None is any of them."""

    job: str

    def owners(self, partition: int | None) -> Sequence[Ask]:
        """Return the task that has a partition, () while none is known; never waits."""
        ...

    def standbys(self, partition: int | None) -> Sequence[Ask]:
        """Return its standbys; never waits."""
        ...

    def refresh(self) -> None:
        """Look again where all are. Waits; NotAvailableError if that can't be said now, without `retry` if there is no job."""
        ...


class Pending:
    """A request that was sent, with who was asked last. `wait` and `answer` give its response, or raise."""

    def __init__(
        self, directory: Directory, partition: int | None, request: ReadRequest, *, timeout: float, stale_ok: bool
    ) -> None:
        self._directory, self._partition, self.request = directory, partition, request
        self._timeout, self._stale_ok = timeout, stale_ok
        self._deadline = time.monotonic() + timeout
        self._pause = _FIRST_PAUSE
        self._why = "there was no answer"
        self._attempt = random.randrange(1 << 16) if partition is None else 0
        self._send()

    def wait(self) -> ReadResponse:
        """Wait for the response on this thread."""
        while True:
            try:
                return self._future.result(self._patience)
            except (FutureTimeout, NotAvailableError) as error:
                pause = self._after(error)
            time.sleep(pause)
            self._look_again()
            self._send()

    async def answer(self) -> ReadResponse:
        """Wait for the response in an event loop."""
        while True:
            try:
                if not self._future.done():  # else also where no time is left
                    await asyncio.wait_for(asyncio.wrap_future(self._future), self._patience)
                return self._future.result(0)
            except (asyncio.TimeoutError, NotAvailableError) as error:
                pause = self._after(error)
            await asyncio.sleep(pause)
            await asyncio.to_thread(self._look_again)
            self._send()

    def _send(self) -> None:
        owners = self._directory.owners(self._partition)
        asked = [*owners, *self._directory.standbys(self._partition)] if self._stale_ok else owners
        self._choices = len(asked)
        if not asked:
            which = "no task" if self._partition is None else f"no task of partition {self._partition}"
            self._future: Future[ReadResponse] = failed(NotAvailableError(f"{which} is running", True))
            return
        self.ask = asked[self._attempt % len(asked)]
        self._future = self.ask(self.request)

    @property
    def _patience(self) -> float:
        """Seconds for this attempt: not all that are left where another one may answer."""
        left = max(0.0, self._deadline - time.monotonic())
        return min(left, self._timeout / 4) if self._choices > 1 else left

    def _after(self, error: BaseException) -> float:
        """Return how long to pause after an error; raise if that doesn't help."""
        if isinstance(error, NotAvailableError) and not error.retry:
            raise error
        self._why = str(error) or self._why
        left = self._deadline - time.monotonic()
        if left <= 0:
            what = f"the store {self.request.store!r} of the job {self._directory.job!r}"
            raise NotAvailableError(f"{what} could not be read within {self._timeout:g} s: {self._why}", True) from error
        self._attempt += 1
        pause, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
        return min(pause, left)

    def _look_again(self) -> None:
        try:
            self._directory.refresh()
        except NotAvailableError as error:
            if not error.retry:
                raise


def failed(error: BaseException) -> Future[ReadResponse]:
    """Return a future that has failed."""
    future: Future[ReadResponse] = Future()
    future.set_exception(error)
    return future


def next_page(ask: Ask, cursor: str, page: int, timeout: float) -> ReadResponse:
    """Return the page after those that have come, of the task that gave them."""
    try:
        return ask(ReadRequest(cursor=cursor, page=page)).result(timeout)
    except FutureTimeout as error:
        raise NotAvailableError(f"the next page of a scan did not come within {timeout:g} s", True) from error
