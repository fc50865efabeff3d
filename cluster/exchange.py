"""Exactly once between tasks: numbered records, an outbox in the commit, and cursors.

    sender    gives each record of an edge (channel, peer) the next number; a commit writes them as runs into the outbox,
              and only then may they leave. A run stays there until the peer has COMMITTED what it holds
    receiver  takes number n where it expects n: less is a repeat (left out), more is a gap (refused: it comes again)

What travels is a `Message` from task to task: runs of several edges, what the sender has committed of the receiver's own
runs, and how far each edge is in time. All of it may be lost, repeated or late; numbers and cursors put it right.
Source: design, section 6.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgpack
import msgspec
from raystreams.cluster.channels import START, Channel, Entry
from raystreams.cluster.outputs import WrittenBatch
from raystreams.operators.record import Headers
from raystreams.stores.errors import RaystreamsError
from raystreams.stores.protocols import Operation
from raystreams.stores.serdes import Serde
from raystreams.stores.values import NO_HEADERS

RUN_BYTES = 1 << 20
"""A run is cut here, so that one message never holds up another for long."""

_pack = msgpack.Packer(autoreset=True).pack


class LostCommitsError(RaystreamsError):
    """A task came back with less than its peer knows that it had committed: going on would lose or repeat records."""

    def __init__(self, task: int, peer: int, channel: str, detail: str) -> None:
        super().__init__(task, peer, channel, detail)

    def __str__(self) -> str:
        task, peer, channel, detail = self.args
        return (
            f"task {task} has lost commits: on {channel!r} with task {peer}, {detail}. Its state directory is older than the "
            "others'; restore all tasks from one snapshot, or reset the job"
        )


@dataclass(frozen=True, slots=True)
class Run:
    """Records of one edge, encoded, under consecutive numbers."""

    channel: str
    first: int
    count: int
    order: int
    """The order of its last record."""
    data: bytes

    @property
    def next(self) -> int:
        """The number after the last one."""
        return self.first + self.count


class EdgeState(msgspec.Struct, frozen=True):
    """How far an edge is when all records before `number` have arrived: no later one has a smaller order than `bound`."""

    number: int
    bound: int
    idle: bool = False
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """What may leave a task after a commit."""

    messages: Sequence[Message]
    batches: Sequence[WrittenBatch]
    operations: Sequence[Operation] = ()
    """What the database wrote, for standbys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one task tells another, at most all of it at once."""

    sender: int
    receiver: int
    epoch: int = 0
    runs: tuple[Run, ...] = ()
    committed: Mapping[str, int] = field(default_factory=dict)
    """By channel: the number that the sender expects next on the receiver's edge, and has committed."""
    edges: Mapping[str, EdgeState] = field(default_factory=dict)


def encode_entries(entries: list[Entry], key: Serde[Any], value: Serde[Any]) -> bytes:
    """Encode records for an edge or for the rows of a self-edge."""
    encode_key, encode_value = key.encode, value.encode
    return _pack(  # type: ignore[no-any-return]  # bytes, since autoreset
        [
            (
                order,
                None if k is None else encode_key(k),
                None if v is None else encode_value(v),
                timestamp,
                dict(headers) if headers else None,
            )
            for order, k, v, timestamp, headers, _ in entries
        ]
    )


def decode_entries(data: bytes, first: int, key: Serde[Any], value: Serde[Any]) -> list[Entry]:
    """Decode what `encode_entries` made; the position of each record is its number."""
    decode_key, decode_value = key.decode, value.decode
    return [
        (
            order,
            None if k is None else decode_key(k),
            None if v is None else decode_value(v),
            timestamp,
            headers or NO_HEADERS,
            number,
        )
        for number, (order, k, v, timestamp, headers) in enumerate(msgpack.unpackb(data), first)
    ]


class OutgoingEdge:
    """What this task sends on a channel to one peer."""

    def __init__(self, channel: str, peer: int, key: Serde[Any], value: Serde[Any], *, next: int, runs: list[Run]) -> None:
        self.channel, self.peer, self._key, self._value = channel, peer, key, value
        self.next = next
        self.fresh: list[Entry] = []
        self.runs: deque[Run] = deque(runs)
        """Committed and not acknowledged, oldest first."""
        self.unacknowledged = sum(run.count for run in runs)
        self.size = sum(len(run.data) for run in runs)
        """Bytes of the runs."""
        self.acknowledged = runs[0].first if runs else next
        self.left = next
        """Numbers below this one may have left. What was committed before this task was opened may have, too."""
        self.order = START

    def add(self, order: int, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Number a record; it leaves with the next commit."""
        if order > self.order:
            self.order = order
        self.fresh.append((self.order, key, value, timestamp, headers, None))

    def draw(self) -> list[Run]:
        """Number and encode what came since the last draw, cut into runs; they are now unacknowledged."""
        runs: list[Run] = []
        fresh, self.fresh = self.fresh, []
        size = len(fresh)
        while fresh:
            data = encode_entries(fresh[:size], self._key, self._value)
            if len(data) > RUN_BYTES and size > 1:
                size = max(1, size * RUN_BYTES // len(data) // 2)
                continue
            cut = fresh[:size]
            runs.append(Run(self.channel, self.next, len(cut), cut[-1][0], data))
            self.next += len(cut)
            fresh = fresh[size:]
        self.runs.extend(runs)
        self.unacknowledged += sum(run.count for run in runs)
        self.size += sum(len(run.data) for run in runs)
        return runs

    @property
    def waiting(self) -> int:
        """Records that the peer has not committed."""
        return self.next - self.acknowledged + len(self.fresh)

    @property
    def oldest(self) -> int:
        """The first of them has no larger order than this."""
        return self.runs[0].order if self.runs else self.fresh[0][0] if self.fresh else START

    def acknowledge(self, number: int) -> list[Run]:
        """The peer has committed all before `number`; returns the runs that may be forgotten."""
        done: list[Run] = []
        self.acknowledged = max(self.acknowledged, number)
        while self.runs and self.runs[0].next <= number:
            run = self.runs.popleft()
            self.unacknowledged -= run.count
            self.size -= len(run.data)
            done.append(run)
        return done


def unsent(edges: Mapping[str, OutgoingEdge], after: Mapping[str, int], limit: int, most_bytes: int) -> Iterator[Run]:
    """The runs that a peer lacks, those of each edge in order, at most `limit` of each and until there are enough bytes.

    `after` gives, by channel, the first number that it lacks; of an edge that isn't there, all runs.
    """
    size = 0
    for name, edge in edges.items():
        first = after.get(name, edge.acknowledged)
        for run in islice((run for run in edge.runs if run.next > first), limit):
            edge.left = max(edge.left, run.next)
            yield run
            size += len(run.data)
            if size >= most_bytes:
                return


class IncomingEdge:
    """What this task receives on a channel from one peer: into the channel, each number once and in order."""

    def __init__(self, channel: Channel, key: Serde[Any], value: Serde[Any], *, cursor: int) -> None:
        self.channel, self._key, self._value = channel, key, value
        self.expected = cursor
        """The number of the next record that may come in."""
        channel.place = cursor - 1

    @property
    def cursor(self) -> int:
        """The number of the next record to process."""
        return int(self.channel.position) + 1

    def accept(self, run: Run) -> bool:
        """Take a run, or what of it is new; False if records before it are missing."""
        if run.first > self.expected:
            return False
        if run.next <= self.expected:
            return True
        entries = decode_entries(run.data, run.first, self._key, self._value)
        self.channel.records.extend(entries[self.expected - run.first :])
        self.channel.idle = False
        self.expected = run.next
        return True

    def advance(self, state: EdgeState) -> None:
        """The sender says how far it is; that counts once all records before it have come in."""
        if state.number > self.expected:
            return
        self.channel.bound = max(self.channel.bound, state.bound)
        if state.number == self.expected:  # else it is older than what has come since
            self.channel.idle = state.idle
        if state.ended:
            self.channel.end()


class SelfEdge:
    """A channel from a task to itself: records stay objects in memory; a commit writes only those that are still waiting."""

    def __init__(self, channel: Channel, key: Serde[Any], value: Serde[Any], *, next: int) -> None:
        self.channel, self.key, self.value = channel, key, value
        self.next = next
        self.order = START
        self.written = next
        """Waiting records before this number have rows."""
        self.rows: deque[tuple[int, int]] = deque()
        """(first, next) of each row that still has waiting records."""

    def add(self, order: int, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Append to the channel."""
        if order > self.order:
            self.order = order
        self.channel.records.append((self.order, key, value, timestamp, headers, self.next))
        self.next += 1

    size = 0
    """Nothing is encoded that doesn't wait at a commit."""

    @property
    def waiting(self) -> int:
        """Records that are not processed."""
        return len(self.channel.records)

    @property
    def oldest(self) -> int:
        """The order of the first of them."""
        return self.channel.records[0][0] if self.channel.records else START

    def draw(self) -> tuple[list[tuple[int, int]], tuple[int, bytes] | None]:
        """For a commit: the rows that are done, and the new row (first number, data) if records wait that have none."""
        cursor = int(self.channel.position) + 1
        done = []
        while self.rows and self.rows[0][1] <= cursor:
            done.append(self.rows.popleft())
        records = self.channel.records
        waiting = list(islice(records, max(0, len(records) - (self.next - self.written)), None))
        first = self.next - len(waiting)
        self.written = self.next
        if not waiting:
            return done, None
        self.rows.append((first, self.next))
        return done, (first, encode_entries(waiting, self.key, self.value))

    def restore(self, rows: list[tuple[int, bytes]], cursor: int) -> None:
        """Take the waiting records back after a restart."""
        for first, data in rows:
            entries = decode_entries(data, first, self.key, self.value)
            self.rows.append((first, first + len(entries)))
            self.channel.records.extend(entry for entry in entries if entry[5] >= cursor)
        self.channel.place = cursor - 1
