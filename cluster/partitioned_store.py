"""A store of all partitions as one to read: a key is asked for where it lives, ranges are merged (`row_order.py`).

Reads go to whatever `stores()` gives at that moment, so a handle stays good when tasks come back after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

from raystreams.cluster.row_order import is_reverse, row_order
from raystreams.operators.graph import Topology
from raystreams.operators.options import Materialized
from raystreams.stores.builders import StoreBuilder
from raystreams.stores.serdes import KeySerde, key_serde, partition_of
from raystreams.stores.values import Windowed

BY_KEY = frozenset({"get", "fetch", "backward_fetch", "fetch_session", "find_sessions", "backward_find_sessions", "history"})
"""Methods whose first argument is a key, which lives in one partition."""

ROWS = frozenset(
    {
        "range", "reverse_range", "all", "reverse_all", "prefix_scan", "fetch_range", "backward_fetch_range", "backward_all",
        "fetch_all", "backward_fetch_all", "find_sessions_range", "backward_find_sessions_range", "find_ended",
    }
)  # fmt: skip
"""Methods that give rows of all partitions."""


def store_name(store: str | Materialized[Any, Any] | StoreBuilder[Any], topology: Topology) -> str:
    """The name of a store, of a handle; ValueError if the topology has none of that name."""
    name = store if isinstance(store, str) else store.name
    if name is None or name not in topology.stores:
        known = ", ".join(map(repr, topology.stores)) or "none"
        raise ValueError(f"no store {name!r} in this topology; it has {known}")
    return name


class MergedRows:
    """An iterator over merged rows, and its own context manager."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = iter(rows)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._rows)

    def __enter__(self) -> MergedRows:
        return self

    def __exit__(self, t: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the rows."""
        self._rows = iter(())


class PartitionedStore:
    """Reads over the stores of all partitions; values without the timestamps that operators keep beside them."""

    def __init__(self, builder: StoreBuilder[Any], stores: Callable[[], Sequence[Any]]) -> None:
        self._builder, self._stores = builder, stores
        self._key: KeySerde[Any] = key_serde(builder.key)
        self._by_window = builder.kind not in ("key_value", "timestamped_key_value", "versioned")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        stores = self._readable()
        found = getattr(stores[0], name)
        if len(stores) == 1 or not callable(found):
            return found
        if name in BY_KEY:
            return lambda key, *args, **kwargs: getattr(self._owner(key), name)(key, *args, **kwargs)
        if name in ROWS:
            return lambda *args, **kwargs: self._merged(name, args, kwargs)
        if name == "approximate_num_entries":
            return lambda: sum(store.approximate_num_entries() for store in self._readable())
        raise AttributeError(f"{name!r} is not for stores of several partitions: they can only be read")

    def get_many(self, keys: Sequence[Any]) -> dict[Any, Any]:
        """The values of those keys that have one."""
        found = ((key, self._owner(key).get(key)) for key in keys)
        return {key: value for key, value in found if value is not None}

    def _readable(self) -> list[Any]:
        return [store.plain() if hasattr(store, "plain") else store for store in self._stores()]

    def _owner(self, key: Any) -> Any:
        stores = self._readable()
        return stores[partition_of(self._key.partition_bytes(key), len(stores))]

    def _merged(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> MergedRows:
        rows: list[Any] = []
        for store in self._readable():
            with getattr(store, name)(*args, **kwargs) as found:
                rows.extend(found)
        place = row_order(self._builder.kind, self._builder.settings, name)

        def place_of(row: tuple[Any, Any]) -> Any:
            key = row[0]
            if self._by_window and isinstance(key, Windowed):
                return place(self._key.encode(key.key), key.start, key.end)
            return place(self._key.encode(key), 0, 0)  # of a key-value store, also one that holds a windowed table

        rows.sort(key=place_of, reverse=is_reverse(name))
        return MergedRows(rows)
