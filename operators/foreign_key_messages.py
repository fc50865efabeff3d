"""What foreign-key joins send between partitions, and how it is encoded.

    table-table      Subscription (left -> right, keyed by foreign key), Response (right -> left, keyed by primary key)
    table -> stream  IndexUpdate (table -> stream, keyed by foreign key)
    stream -> table  LookupRequest (stream -> table, keyed by foreign key), LookupResponse (back to the partition that asked)

Keys and rows inside a message are bytes: who passes them on needs no types, and an empty value stays apart from no value
(Kafka's format can't tell them apart in a response). Each message ends with its version; a receiver refuses a newer one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

import msgspec
import xxhash
from raystreams.operators.errors import UnsupportedVersionError
from raystreams.operators.options import TableJoined
from raystreams.stores.plain import decode_plain
from raystreams.stores.serdes import KeySerde, Serde, partition_of, value_serde


class Instruction(IntEnum):
    """What a subscription asks for (the names are Kafka's; spec-joins 4.3)."""

    DELETE_KEY_NO_PROPAGATE = 0
    """Forget the subscription; no answer."""
    DELETE_KEY_AND_PROPAGATE = 1
    """Forget the subscription; answer that there is no row, always."""
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    """Subscribe; answer with the row or with none, always."""
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3
    """Subscribe; a missing row is answered quietly."""


class Subscription(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A left row's interest in a right key. `hash` is that of the new left value, None where it was deleted.

    `partition` is where the left row lives if its key's hash says otherwise, so that answers find it.
    """

    instruction: Instruction
    primary_key: bytes
    hash: bytes | None
    partition: int | None = None
    version: int = 1


class Response(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The right row for a left one. `hash` is what the subscription carried; `value` is None where there is no row.

    `quiet`: there is no row, and whoever asked only wanted to know of one; it matters only if a result has to go.
    `ended`: there is no subscription any more.
    """

    hash: bytes | None
    value: bytes | None
    quiet: bool = False
    ended: bool = False
    version: int = 1


class IndexUpdate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A table's row that has this foreign key from the record's time on; None: it has it no longer."""

    primary_key: bytes
    row: bytes | None
    version: int = 1


class LookupRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Asks for a row, as it was at the record's time where the table is versioned."""

    home: int
    sequence: int
    version: int = 1


class LookupResponse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The answer to request `sequence`; `row` is None where there is none."""

    sequence: int
    row: bytes | None
    version: int = 1


_VERSION = 1


def check_version(message: Any) -> None:
    """Raise UnsupportedVersionError for a message from the future."""
    if message.version > _VERSION:
        raise UnsupportedVersionError(type(message).__name__, message.version, _VERSION)


def message_serde(message: type[msgspec.Struct]) -> Serde[Any]:
    """The serde of a kind of message."""
    return value_serde(message)


def fingerprint(serde: Serde[Any]) -> Callable[[Any], bytes]:
    """A function from a value to 128 bits of it, the same before the value is stored and after it is read again.

    Typed values may change on that way (an int in a float field comes back as a float), so those are sent through it first.
    """
    encode, decode, digest = serde.encode, serde.decode, xxhash.xxh3_128_digest
    if decode is decode_plain:
        return lambda value: digest(encode(value))
    return lambda value: digest(encode(decode(encode(value))))


def taking_key(extractor: Callable[..., Any], *, with_key: bool) -> Callable[[Any, Any], Any]:
    """An extractor of foreign keys as one of (key, value), whichever it takes."""
    return extractor if with_key else lambda key, value: extractor(value)


def key_partitioner(
    table_joined: TableJoined | None, what: Literal["partitioner", "other_partitioner"], key: KeySerde
) -> KeyPartitioner | None:
    """The partitioner that a TableJoined gives, None if it gives none."""
    partitioner = None if table_joined is None else getattr(table_joined, what)
    return None if partitioner is None else KeyPartitioner(partitioner=partitioner, key=key, what=what)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPartitioner:
    """A user's partitioner of keys alone (KIP-775): called without a value, must give one partition, or None for the default."""

    partitioner: Callable[[Any, Any, int], Any]
    key: KeySerde
    what: str

    def __call__(self, key: Any, value: Any, partitions: int) -> int:
        chosen = self.partitioner(key, None, partitions)
        if chosen is None:
            return partition_of(self.key.partition_bytes(key), partitions)
        if not isinstance(chosen, int) or isinstance(chosen, bool) or not 0 <= chosen < partitions:
            raise ValueError(
                f"{self.what} must return one partition from 0 to {partitions - 1}, or None for the default, got {chosen!r} "
                f"for key {key!r}"
            )
        return chosen
