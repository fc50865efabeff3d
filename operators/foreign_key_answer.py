"""Stages 2 to 4 of the foreign-key join, at the right table's partition: subscriptions kept and answered, changes fanned out.

    SubscriptionReceive   keeps (foreign key, primary key) -> hash, home
    SubscriptionAnswer    looks the right row up and answers as the instruction says; time = the later of both
    FanOut                a right change answers every subscriber of its key, in the order of the primary keys' bytes,
                          with the right record's own time (not the later of both)

Equal right values and repeated deletions fan out again; an older one of a versioned right table does not (spec-joins 4.5, 4.6).
An answer travels with the partition that it goes to: the one that the subscription names, or that of the left key's hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.foreign_key_messages import Instruction, Response, Subscription, check_version
from raystreams.operators.graph import ChannelSink
from raystreams.operators.record import Change, Headers, Process
from raystreams.stores.serdes import KeySerde, Serde

_FORGET = Instruction.DELETE_KEY_NO_PROPAGATE
_FORGET_AND_ANSWER = Instruction.DELETE_KEY_AND_PROPAGATE
_ANSWER = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
_ONLY_IF_FOUND = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE

_HASH = 16
"""Bytes of a hash; a subscriber's row is its hash, and its partition where its key's hash says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionReceive:
    """Keeps subscriptions. Applying one again changes nothing."""

    store: str
    other_key: KeySerde
    counted_as: str | None

    def start(self, node: NodeRuntime) -> Process:
        forward, drop, encode = node.forward, node.dropping_as(self.counted_as), self.other_key.encode
        subscriptions = node.store(self.store)
        put, delete = subscriptions.put, subscriptions.delete

        def process(key: Any, subscription: Subscription, timestamp: int, headers: Headers) -> None:
            check_version(subscription)
            instruction, home = subscription.instruction, subscription.partition
            if key is None:
                if instruction is not _ANSWER:
                    return drop("null foreign key")
            elif instruction is _FORGET or instruction is _FORGET_AND_ANSWER:
                delete(encode(key), subscription.primary_key)
            else:
                assert subscription.hash is not None, "only a row that is there subscribes"
                row = subscription.hash if home is None else subscription.hash + home.to_bytes(4, "big")
                put(encode(key), subscription.primary_key, row)
            forward(key, subscription, timestamp, headers)

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionAnswer:
    """Answers a subscription from the right table's latest rows."""

    table: str
    key: KeySerde
    other_value: Serde[Any]

    def start(self, node: NodeRuntime) -> Process:
        forward, get = node.forward, node.view(self.table).get
        decode_key, encode_value = self.key.decode, self.other_value.encode

        def process(key: Any, subscription: Subscription, timestamp: int, headers: Headers) -> None:
            instruction = subscription.instruction
            if instruction is _FORGET:
                return
            found, ended = None if key is None else get(key), instruction is _FORGET_AND_ANSWER
            value = None
            if found is not None:
                timestamp = max(timestamp, found.timestamp)
                if not ended:
                    value = encode_value(found.value)
            quiet = found is None and instruction is _ONLY_IF_FOUND
            answer = (subscription.partition, Response(subscription.hash, value, quiet, ended))
            forward(decode_key(subscription.primary_key), answer, timestamp, headers)

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOut:
    """Answers all subscribers of a right row that changed."""

    store: str
    versioned: bool
    key: KeySerde
    other_key: KeySerde
    other_value: Serde[Any]
    counted_as: str | None

    def start(self, node: NodeRuntime) -> Process:
        forward, drop, scan = node.forward, node.dropping_as(self.counted_as), node.store(self.store).scan
        versioned, decode_key = self.versioned, self.key.decode
        encode_other, encode_value = self.other_key.encode, self.other_value.encode

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if key is None:
                return drop("null key")
            if versioned and not change.is_latest:
                return drop("out of order")
            value = None if change.new is None else encode_value(change.new)
            for primary_key, row in scan(encode_other(key)):
                home = int.from_bytes(row[_HASH:], "big") if len(row) > _HASH else None
                forward(decode_key(primary_key), (home, Response(row[:_HASH], value)), timestamp, headers)

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSink(ChannelSink):
    """Sends answers to where the left rows live: `by_home` as the subscriptions say, else by the channel's partitioner."""

    by_home: bool

    def start(self, node: NodeRuntime) -> Process:
        channel, by_home = node.channel(self.channel), self.by_home
        send, send_to = channel.send, channel.send_to

        def process(key: Any, answer: tuple[int | None, Response], timestamp: int, headers: Headers) -> None:
            home, response = answer
            if home is None or not by_home:
                send(key, response, timestamp, headers)
            else:
                send_to(home, key, response, timestamp, headers)

        return process
