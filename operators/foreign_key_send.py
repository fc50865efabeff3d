"""Stage 1 of the foreign-key join: a change of a left row becomes none, one or two subscriptions (spec-joins 4.4).

    old -> new foreign key     inner                                   left
    - -> -                     nothing                                 nothing
    none -> null               nothing, counted                       (null, ANSWER)
    none/null -> f             (f, ONLY IF FOUND)                      (f, ANSWER)
    f -> f                     (f, ONLY IF FOUND)                      (f, ANSWER)
    f -> g                     (f, FORGET), (g, ANSWER)                (f, FORGET), (g, ANSWER)
    f -> null                  (f, FORGET AND ANSWER), counted         (f, FORGET), (null, ANSWER)
    f -> deleted               (f, FORGET AND ANSWER)                  (f, FORGET), (null, ANSWER)
    null -> deleted            nothing                                 (null, ANSWER)

This is Kafka's logic after KAFKA-16394 and KAFKA-16407: no null result in between on a change of the key, no row lost when
the key was null before. Foreign keys are equal if their bytes are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.foreign_key_messages import Instruction, Subscription, fingerprint
from raystreams.operators.graph import ChannelSink
from raystreams.operators.record import Change, Headers, Process
from raystreams.stores.serdes import KeySerde, Serde, partition_of

_FORGET = Instruction.DELETE_KEY_NO_PROPAGATE
_FORGET_AND_ANSWER = Instruction.DELETE_KEY_AND_PROPAGATE
_ANSWER = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
_ONLY_IF_FOUND = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSend:
    """Sends a left table's subscriptions. `foreign_key` takes (key, value) and never sees a null value."""

    foreign_key: Callable[[Any, Any], Any]
    left: bool
    versioned: bool
    key: KeySerde
    value: Serde[Any]
    other_key: KeySerde
    counted_as: str | None

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, drop = node.forward, node.failed, node.dropping_as(self.counted_as)
        foreign_key, left, versioned = self.foreign_key, self.left, self.versioned
        encode_key, encode_other, hash_of = self.key.encode, self.other_key.encode, fingerprint(self.value)
        partition_bytes, own, partitions = self.key.partition_bytes, node.partition, node.partitions

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if versioned and not change.is_latest:
                return drop("out of order")
            new, old = change.new, change.old
            try:
                before = None if old is None else foreign_key(key, old)
                after = None if new is None else foreign_key(key, new)
                before_bytes = None if before is None else encode_other(before)
                after_bytes = None if after is None else encode_other(after)
                new_hash = None if new is None else hash_of(new)
                key_bytes = encode_key(key)
                home = None if partitions == 1 or partition_of(partition_bytes(key), partitions) == own else own
            except Exception as error:
                return failed(error, key, new, timestamp, headers)

            if before_bytes is not None and before_bytes != after_bytes:
                leave = _FORGET if left or after_bytes is not None else _FORGET_AND_ANSWER
                forward(before, Subscription(leave, key_bytes, new_hash, home), timestamp, headers)
                ask = _ANSWER
            else:
                ask = _ANSWER if left else _ONLY_IF_FOUND
            if after_bytes is not None or (left and (new is not None or old is not None)):
                forward(after, Subscription(ask, key_bytes, new_hash, home), timestamp, headers)
            elif new is not None:
                drop("null foreign key")

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSink(ChannelSink):
    """Sends subscriptions to the right table's partitions. Without a foreign key any task can answer: the own one does."""

    def start(self, node: NodeRuntime) -> Process:
        channel, own = node.channel(self.channel), node.partition
        send, send_to = channel.send, channel.send_to

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                send_to(own, key, value, timestamp, headers)
            else:
                send(key, value, timestamp, headers)

        return process
