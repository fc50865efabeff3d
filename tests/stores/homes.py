"""Where stores live in tests: in memory, on disk, or on disk and wholly in memory; all can crash and be opened again.

`CRAMPED` gives stores so little memory that their caches overflow all the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from raystreams.stores.builders import StoreBuilder
from raystreams.stores.database import DatabaseSettings, TaskDatabase
from raystreams.stores.memory import MemoryEngine

ROOMY = DatabaseSettings()
CRAMPED = DatabaseSettings(cache_bytes=3_000)
IDENTITY: Mapping[str, Any] = {"job": "test", "partition": 0}


class Home:
    """A task's database with one store, which is made anew after a crash or a restart."""

    def __init__(self, builder: StoreBuilder[Any], path: Path | None = None, settings: DatabaseSettings = ROOMY) -> None:
        self._builder = builder
        self._path, self._settings = path, settings
        self._engine = MemoryEngine() if path is None else None
        self._open()

    def _open(self) -> None:
        self.database = TaskDatabase.open(self._path, IDENTITY, settings=self._settings, engine=self._engine)
        self.store: Any = self._builder.create(self.database)

    def commit(self) -> None:
        """Commit."""
        self.database.commit()

    def crash(self) -> None:
        """Lose what isn't committed."""
        self.database.discard()
        self.store = self._builder.create(self.database)

    def restart(self) -> None:
        """Commit, close, and open again."""
        self.database.commit()
        self.database.close()
        self._open()

    def committed(self) -> Any:
        """The store as it was last committed."""
        return self._builder.read_committed(self.database)

    def close(self) -> None:
        """Close, without a commit."""
        self.database.close()


KINDS = ("memory", "leveldb", "cramped", "resident")


def make_home(kind: str, builder: StoreBuilder[Any], folder: Path) -> Home:
    """A home of a kind; those on disk are in a folder of their own."""
    if kind == "memory":
        return Home(builder)
    if kind == "resident":
        return Home(replace(builder, in_memory=True), folder / kind)
    return Home(builder, folder / kind, CRAMPED if kind == "cramped" else ROOMY)


def listed(rows: Any) -> list[Any]:
    """All rows of a store iterator, which is closed."""
    with rows:
        return list(rows)
