"""A table's store as table operators use it, whether it is versioned or not.

`put` says what became of the row: True if it is now the latest of its key, False if it went behind it (versioned, out of
order), None if it was refused (versioned, older than the history).
"""

from __future__ import annotations

from typing import Any, Protocol

from raystreams.operators.draft import GraphDraft
from raystreams.operators.options import Materialized
from raystreams.stores.builders import StoreBuilder, Stores
from raystreams.stores.serdes import KeySerde, Serde, ValueSerde, key_serde, value_serde
from raystreams.stores.values import PUT_LATEST, PUT_REFUSED, ValueAndTimestamp
from raystreams.stores.versioned import VersionedStore


class TableStore(Protocol):
    """Latest rows by key; rows as of a time where `versioned`."""

    versioned: bool

    def get(self, key: Any) -> ValueAndTimestamp[Any] | None: ...
    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None: ...
    def put(self, key: Any, value: Any, timestamp: int) -> bool | None: ...


class _Timestamped:
    versioned = False

    def __init__(self, store: Any) -> None:
        self.get, self._put = store.get, store.put

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        raise TypeError("this table keeps no versions; materialize it with Materialized.versioned(...)")

    def put(self, key: Any, value: Any, timestamp: int) -> bool | None:
        self._put(key, value, timestamp)
        return True


class _Versioned:
    versioned = True

    def __init__(self, store: VersionedStore[Any, Any]) -> None:
        # A VersionedRecord has a value and a timestamp, which is all that a look-up reads.
        self.get: Any = store.get
        self.get_as_of: Any = store.row_as_of
        self._store = store

    def put(self, key: Any, value: Any, timestamp: int) -> bool | None:
        valid_to = self._store.put(key, value, timestamp)
        if valid_to == PUT_REFUSED:
            return None
        return valid_to == PUT_LATEST


def table_store(store: Any) -> TableStore:
    """The store of a table as a TableStore."""
    return _Versioned(store) if isinstance(store, VersionedStore) else _Timestamped(store)


def typed(
    materialized: Materialized[Any, Any] | None, key: KeySerde, value: ValueSerde[Any]
) -> tuple[KeySerde, ValueSerde[Any]]:
    """The serdes, or those of the Materialized where it has some."""
    if materialized is not None:
        key = key_serde(materialized.key) if materialized.key is not None else key
        value = value_serde(materialized.value) if materialized.value is not None else value
    return key, value


def has_store(materialized: Materialized[Any, Any] | None) -> bool:
    """Whether a Materialized asks for a store; one that only has types does not (spec-joins 8.3)."""
    return materialized is not None and (materialized.name is not None or materialized.kind in ("in_memory", "versioned"))


def add_table_store(
    draft: GraphDraft, materialized: Materialized[Any, Any] | None, name: str, key: KeySerde, value: Serde[Any]
) -> str:
    """Add the store of a table under `name`; returns the name."""
    kind = materialized.kind if materialized else "key_value"
    builder: StoreBuilder[Any]
    if kind == "versioned":
        assert materialized is not None and materialized.history_retention is not None
        builder = Stores.versioned(
            name, history_retention=materialized.history_retention, segment_interval=materialized.segment_interval,
            key=key, value=value,
        )
    elif kind in ("key_value", "in_memory"):
        builder = Stores.timestamped_key_value(name, key=key, value=value, in_memory=kind == "in_memory")
    else:
        raise ValueError(f"a {kind} store can't hold this table; use Materialized.key_value, in_memory or versioned")
    return draft.add_store(builder, formerly=materialized.formerly if materialized else None)


def mark_of(materialized: Materialized[Any, Any] | None, otherwise: bool | None) -> bool | None:
    """Whether the materialization makes its table versioned; `otherwise` where it has no store (spec-joins 8.1)."""
    if not has_store(materialized):
        return otherwise
    assert materialized is not None
    return materialized.kind == "versioned"
