"""`apply(aggregation)`: a ready-made aggregation of a group, window or session (`aggregations.py`).

    records --> [aggregate: the state, in store NAME-parts] --> [finish: the result] --> [keep, in store NAME]

The state (a count and a sum) is not what a user asks for (a mean), so each has its store; the results' one is only there if
it has a name by which it can be asked. A group that has lost its last row is deleted, as in SQL.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from raystreams.operators.aggregations import Aggregation, Fold
from raystreams.operators.execution import NodeRuntime, TableView
from raystreams.operators.grouped import Aggregation as Aggregating
from raystreams.operators.ktable import KTable
from raystreams.operators.options import Materialized, OnError
from raystreams.operators.record import Change, Headers, Process
from raystreams.operators.table_computed import computed_draft, computed_table
from raystreams.operators.table_draft import TableDraft
from raystreams.operators.table_stateless import TableMapValues
from raystreams.operators.table_store import typed
from raystreams.stores.builders import StoreBuilder
from raystreams.stores.serdes import ValueSerde, value_serde

AnyMaterialized = Materialized[Any, Any]


class Applied:
    """What `apply` needs of an aggregation: functions over `[rows, state]`, and the serde of that."""

    def __init__(
        self, aggregation: Aggregation[Any, Any], above: ValueSerde[Any], materialized: AnyMaterialized | None,
        name: str | None, on_error: OnError | None, *, retracts: bool,
    ) -> None:
        if not isinstance(aggregation, Aggregation):
            raise TypeError(f"apply takes an aggregation such as Count() or Aggregates(...), got {aggregation!r}")
        self._fold = aggregation.fold(above, retracts=retracts)
        self._materialized, self._name, self._on_error = materialized, name, on_error
        self.serde = value_serde(PartsSerde(self._fold))
        self.store = materialized.name if materialized is not None and materialized.name is not None else name

    def parts(self, prefix: str) -> tuple[Aggregating, AnyMaterialized | None]:
        """The aggregation of the state, and where it is kept."""
        given = self._materialized
        if given is not None:
            formerly = None if given.formerly is None else f"{given.formerly}-parts"
            given = dataclasses.replace(given, name=_parts_of(self.store), value=PartsSerde(self._fold), formerly=formerly)
        name = _parts_of(self._name)
        return Aggregating(prefix, self.initial, self.added, self.serde, name, self._on_error, counted_as=self._name), given

    def initial(self) -> list[Any]:
        """No rows."""
        return [0, self._fold.initial()]

    def added(self, key: Any, value: Any, state: list[Any]) -> list[Any]:
        """With one row more; a null is none."""
        return state if value is None else [state[0] + 1, self._fold.add(state[1], value)]

    def subtracted(self, key: Any, value: Any, state: list[Any]) -> list[Any] | None:
        """With one row less; None without the last."""
        if state[0] <= 1:
            return None
        return [state[0] - 1, self._fold.subtract(state[1], value)]

    def merged(self, key: Any, a: list[Any], b: list[Any]) -> list[Any]:
        """Two sessions as one."""
        return [a[0] + b[0], self._fold.merge(a[1], b[1])]

    def results(self, parts: KTable[Any, Any], builder: Callable[..., StoreBuilder[Any]] | None = None) -> KTable[Any, Any]:
        """The table of results; `builder(name, value)` describes its store if it is one of windows."""
        draft, given, fold, node_name = parts._draft, self._materialized, self._fold, self._name
        key, (_, value) = parts._key, typed(given, parts._key, fold.result)
        stored = None
        if builder is None and self.store is not None:
            stored = dataclasses.replace(given or Materialized.key_value(), name=self.store)
        finished_name = node_name if builder is None or node_name is None else f"{node_name}-finish"
        table = computed_draft(draft, parts._table, "KTABLE-MAPVALUES-", finished_name, stored, (key, value))

        def make() -> TableMapValues:
            return TableMapValues(
                mapper=self.finished, with_key=False, parent=parts._node, store=table.store, sends_old=table.sends_old
            )

        finished = computed_table(parts, table, make, given, (key, value), on_error=self._on_error)
        if builder is None or self.store is None:
            return finished
        draft.add_store(builder(self.store, value), formerly=given.formerly if given is not None else None)
        return _kept(finished, self.store, node_name, given)

    def finished(self, state: list[Any]) -> Any:
        """The result; None for no rows."""
        return self._fold.finish(state[1]) if state[0] else None


def _kept(finished: KTable[Any, Any], store: str, name: str | None, given: AnyMaterialized | None) -> KTable[Any, Any]:
    draft, parent = finished._draft, finished._table
    node = draft.named("KTABLE-KEEP-", name)
    sessions = draft.stores[store].kind == "session"
    table = draft.add_table(TableDraft(node, "derived", parents=(parent,), versioned=False))
    operator = KeepWindows(store=store, parent=finished._node, sessions=sessions)
    draft.add(node, lambda: operator, [finished._node], stores=[store, table])
    return KTable(draft, node, finished._key, finished._value, table, given)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepWindows:
    """Keeps the results of windows in a store of windows, to be asked for."""

    store: str
    parent: str
    sessions: bool

    def start(self, node: NodeRuntime) -> Process:
        store, forward = node.store(self.store), node.forward

        def keep_session(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if change.new is None:
                store.remove(key)
            else:
                store.put(key, change.new)
            forward(key, change, timestamp, headers)

        def keep_window(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            store.put(key.key, change.new, timestamp, key.start)
            forward(key, change, timestamp, headers)

        return keep_session if self.sessions else keep_window

    def view(self, node: NodeRuntime) -> TableView:
        """Look up in the table above, which is the same."""
        return node.view(self.parent)


class PartsSerde:
    """States of an aggregation, with how many records they are of."""

    def __init__(self, fold: Fold) -> None:
        self._fold, self._plain = fold, value_serde(None)
        self.description = f"parts of {fold.description}"

    def encode(self, state: list[Any]) -> bytes:
        """The bytes of a state."""
        return self._plain.encode([state[0], self._fold.pack(state[1])])

    def decode(self, data: bytes) -> list[Any]:
        """The state of bytes."""
        rows, packed = self._plain.decode(data)
        return [rows, self._fold.unpack(packed)]


def _parts_of(name: str | None) -> str | None:
    return None if name is None else f"{name}-parts"


