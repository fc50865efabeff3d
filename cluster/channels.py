"""The inputs of one sub-topology in one task, and the order in which their records are taken.

Every record has an *order*: on a split the largest timestamp read so far, itself included (less `disorder` for a table);
on an edge what its sender was at when it sent it. Orders never fall along a channel. The record with the smallest
(order, rank) goes next; ranks put tables before streams, then go by declaration, then by split or sender.

An empty channel that may still bring a smaller one holds the others back, until its `bound` (no later record has a
smaller order) has passed theirs. So the order of processing is a function of the data, not of batches, speed or commits.
Exempt: feedback channels, which depend on what comes out here, and splits that have caught up with a live source.

A channel that has ended is at `END`: its end is taken like a record of that order, so ends are in order too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, repeat
from typing import Any

from raystreams.operators.record import Headers, Process

START = -(2**63)
END = 2**63 - 1

Entry = tuple[int, Any, Any, int, Headers, Any]
"""(order, key, value, timestamp, headers, place): see `Channel.place`."""


class Channel:
    """One input: a split, or the edge from one sender. Records wait here in the order in which they came."""

    __slots__ = (
        "bound", "disorder", "ended", "feedback", "finished", "idle", "name", "offered", "place", "process", "rank", "records",
        "sender", "sender_is_idle", "source", "taken", "top", "topic", "upstream",
    )  # fmt: skip

    def __init__(
        self, name: str, source: str, process: Process, *, topic: str | None, sender: int = -1, disorder: int = 0,
        feedback: bool = False,
    ) -> None:
        self.name, self.source, self.process = name, source, process
        self.topic, self.sender, self.disorder, self.feedback = topic, sender, disorder, feedback
        self.rank = 0
        self.records: deque[Entry] = deque()
        self.top = START
        """Splits: the largest timestamp that was offered."""
        self.taken = START
        """The order of the last record that was taken."""
        self.bound = START
        """No later record has a smaller order; it never falls."""
        self.place: Any = None
        """Where the last record that was taken stood: on an edge its number, on a split (positions of its batch, index)."""
        self.offered = 0
        """Splits: records that were offered; those that were taken before a restart count, too."""
        self.idle = self.ended = self.finished = False
        self.upstream: Callable[[], int] | None = None
        """Edges from a task to itself: the sender's present bound, which needs no message."""
        self.sender_is_idle: Callable[[], bool] | None = None
        """Likewise, whether the sender has caught up with live sources."""

    def offer(
        self, keys: Sequence[Any], values: Sequence[Any], timestamps: Sequence[int], headers: Iterable[Headers],
        positions: Sequence[Any],
    ) -> None:
        """Take a split's records, in its order. Positions are looked up only where one is needed: at a commit."""
        if not timestamps:
            return
        places = zip(repeat(positions), range(len(timestamps)))  # the first never ends
        orders = list(accumulate(timestamps, max, initial=self.top))[1:]
        self.top = orders[-1]
        if self.disorder:
            orders = [order - self.disorder for order in orders]
        self.offered += len(timestamps)
        self.records.extend(zip(orders, keys, values, timestamps, headers, places, strict=True))
        self.bound = max(self.bound, orders[-1])
        self.idle = False

    @property
    def count(self) -> int:
        """Splits: records that were taken, ever."""
        return self.offered - len(self.records)

    @property
    def position(self) -> Any:
        """The position of the last record that was taken; on an edge, its number."""
        place = self.place
        if place.__class__ is tuple:
            positions, index = place
            # Kept as it was: what it is looked up in would keep the whole batch alive.
            self.place = [positions[index]]
            return self.place[0]
        return place[0] if place.__class__ is list else place

    @position.setter
    def position(self, position: Any) -> None:
        self.place = [position]

    def watermark(self, timestamp: int) -> None:
        """Nothing earlier than `timestamp` will follow."""
        self.bound = max(self.bound, timestamp)

    def end(self) -> None:
        """Nothing will follow."""
        self.ended = True
        self.bound = END

    def is_idle(self) -> bool:
        """Whether it has caught up with a live source, so that nobody waits for it."""
        return self.idle if self.sender_is_idle is None else self.sender_is_idle()

    def present_bound(self) -> int:
        """The bound, asked from the sender if it is this task itself."""
        if self.upstream is not None and not self.ended:
            self.bound = max(self.bound, self.upstream())
        return self.bound


class Inputs:
    """All channels of one sub-topology (or of one source's ingest stage), and the choice among them."""

    def __init__(self, name: str, on_end: Callable[[Channel], None]) -> None:
        self.name = name
        self.channels: list[Channel] = []
        self.stream_time = -1
        self.current = START
        """The order of the record that is being processed; of the last one between records."""
        self.passed = START
        """The last time that was passed without a record."""
        self.events = 0
        """Records and ends taken so far."""
        self.interrupted = False
        """Set to look at the channels anew before the next record."""
        self.patient = True
        """Whether empty channels hold the others back; a test driver takes records as they are sent."""
        self._only_other: Channel | None = None
        """If just two channels are to be looked at, the one that does not go next."""
        self.waits_for: Sequence[Inputs] = ()
        """Inputs of global tables, which are read to their present end first."""
        self._on_end = on_end

    def add(self, channels: Iterable[Channel], order: Callable[[Channel], Any]) -> None:
        """Set the channels; `order` says which goes first at equal times."""
        self.channels = sorted(channels, key=order)
        for rank, channel in enumerate(self.channels):
            channel.rank = rank

    def bound(self) -> int:
        """No record that is yet to be processed here has a smaller order; END when all inputs have ended."""
        lowest = END
        for channel in self.channels:
            if channel.feedback:
                continue
            at = channel.records[0][0] if channel.records else END if channel.finished else channel.present_bound()
            lowest = min(lowest, at)
        return lowest

    def passed_time(self) -> int | None:
        """A time, later than ever before, that no later record will be older than; only known where all inputs are live,
        have caught up, and say how far time is."""
        live = [channel for channel in self.channels if not channel.feedback and not channel.finished]
        if not live or any(channel.records or not channel.is_idle() for channel in live):
            return None
        time = min(channel.present_bound() for channel in live)
        return time if max(self.passed, self.stream_time) < time < END else None

    @property
    def idle(self) -> bool:
        """Whether everything here is processed and all live inputs have caught up."""
        return all(not c.records and (c.finished or c.feedback or c.is_idle()) for c in self.channels)

    @property
    def caught_up(self) -> bool:
        """Whether the inputs have been read to their present ends."""
        return all(not c.records and (c.ended or c.is_idle()) for c in self.channels)

    def run(
        self, budget: int, begin: Callable[[Channel], Any], after: Callable[[int], Any] | None, *, only_feedback: bool = False
    ) -> int:
        """Process up to `budget` records in order; returns how many. `after(stream time)` follows each one.

        With `only_feedback`, only what comes back: what these inputs feed is full, and may be waiting for that.
        """
        done = 0
        while done < budget:
            channel, limit = self._choose_feedback() if only_feedback else self._choose()
            if channel is None:
                break
            if not channel.records:
                self._finish(channel)
                continue
            begin(channel)
            taken = self._take(channel, limit, budget - done, after)
            other = self._only_other
            while other is not None and other.records and channel.records and done + taken < budget and not self.interrupted:
                # Two inputs take turns: each may go on up to where the other is.
                channel, other = other, channel
                begin(channel)
                limit = other.records[0][0] - (channel.rank > other.rank)
                taken += self._take(channel, limit, budget - done - taken, after)
            self.events += taken
            done += taken
        return done

    def _choose(self) -> tuple[Channel | None, int]:
        """The channel that goes next, and the largest order up to which it may go on before the others are looked at."""
        self.interrupted = False
        if self.waits_for and self.patient and any(not inputs.caught_up for inputs in self.waits_for):
            return None, 0
        best: Channel | None = None
        candidates: list[Channel] = []
        best_at = limit = END
        limit_rank = len(self.channels)
        for channel in self.channels:
            if channel.finished:
                continue
            if channel.records:
                at = channel.records[0][0]
            elif channel.ended:
                at = END
            elif channel.feedback or not self.patient or channel.is_idle():
                continue
            else:
                at = channel.present_bound()
            candidates.append(channel)
            if best is None or at < best_at:
                if best is not None:
                    limit, limit_rank = best_at, best.rank
                best, best_at = channel, at
            elif at < limit or limit_rank == len(self.channels):
                limit, limit_rank = at, channel.rank
        if best is None or not (best.records or best.ended):
            return None, 0
        self._only_other = candidates[best is candidates[0]] if len(candidates) == 2 else None
        return best, limit if best.rank < limit_rank else limit - 1

    def _choose_feedback(self) -> tuple[Channel | None, int]:
        waiting = [channel for channel in self.channels if channel.feedback and channel.records]
        self._only_other = None
        best = min(waiting, key=lambda channel: channel.records[0][0], default=None)
        return best, 0 if best is None else best.records[0][0]

    def _take(self, channel: Channel, limit: int, budget: int, after: Callable[[int], Any] | None) -> int:
        records, process, time = channel.records, channel.process, self.stream_time
        pop, done = records.popleft, 0
        self.interrupted = False
        while done < budget and records:
            if records[0][0] > limit:
                break
            order, key, value, timestamp, headers, channel.place = pop()
            channel.taken = order
            if order > self.current:
                self.current = order
            if timestamp > time:
                self.stream_time = time = timestamp
            process(key, value, timestamp, headers)
            done += 1
            if after is not None:
                after(time)
            if self.interrupted:
                break
        return done

    def _finish(self, channel: Channel) -> None:
        """Take the end of a channel; when all of its source's channels are at theirs, the source has ended."""
        channel.finished = True
        self.events += 1
        self.current = max(self.current, END)
        self._on_end(channel)

