"""What is known of a table while it is described: its store, who wants old values, and whether it is versioned.

Old values (spec-joins 0.3). A table's changes carry the old value only where someone below asked for it:

    source      materializes if forced, else agrees only when it has a store already
    derived     (filter, map, suppress) answers from its own store, else asks the table above
    join        forces both inputs, always agrees
    aggregate   always agrees

Versioned (spec-joins 8.1): by the mark if there is one, else if all tables above are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from raystreams.stores.builders import StoreBuilder


class TableDraft:
    """One table. `store` is None as long as nothing needs one; `make_store` gives a source's when something does."""

    def __init__(
        self,
        node: str,
        kind: Literal["source", "derived", "join", "aggregate"],
        *,
        parents: tuple[TableDraft, ...] = (),
        store: str | None = None,
        make_store: Callable[[], str] | None = None,
        versioned: bool | None = None,
        extra_stores: tuple[str, ...] = (),
        is_global: bool = False,
    ) -> None:
        self.node, self.kind, self.parents, self.store = node, kind, parents, store
        self.make_store, self.mark, self.extra_stores, self.is_global = make_store, versioned, extra_stores, is_global
        self.sends_old = False

    @property
    def versioned(self) -> bool:
        """Whether operators below treat this table as versioned (KIP-914)."""
        if self.mark is not None:
            return self.mark
        return bool(self.parents) and all(parent.versioned for parent in self.parents)

    def enable_old(self, *, force: bool = True) -> bool:
        """Ask for old values in this table's changes; returns whether they will come."""
        if self.kind == "source" and self.store is None:
            if not force:
                return False
            self.materialize()
        elif self.kind == "derived" and self.store is None:
            if not self.parents[0].enable_old(force=force):
                return False
        elif self.kind == "join":
            for parent in self.parents:
                parent.enable_old()
        self.sends_old = True
        return True

    def materialize(self) -> None:
        """Make sure that the table can be looked up in."""
        if self.store is not None:
            return
        if self.make_store is not None:
            self.store = self.make_store()
        for parent in self.parents:
            parent.materialize()

    def view_stores(self) -> list[str]:
        """The stores that a look-up in this table reads."""
        if self.store is not None:
            return [self.store]
        return [*self.extra_stores, *(name for parent in self.parents for name in parent.view_stores())]

    def behind(self, stores: dict[str, StoreBuilder[Any]]) -> list[StoreBuilder[Any]]:
        """The builders of `view_stores()`."""
        return [stores[name] for name in self.view_stores()]
