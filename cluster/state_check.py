"""Whether the state in a database is that of this topology; and whether its job has come to an end.

Stores are compared when they are opened (`stores.database`). Here: stores and channels that the topology no longer has,
whose rows would be lost without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack
from raystreams.operators.graph import Topology
from raystreams.stores.database import TaskDatabase
from raystreams.stores.errors import StoreMismatchError

_ABOUT = "_about"


def check_topology(database: TaskDatabase, topology: Topology) -> None:
    """Raise StoreMismatchError if a store or a channel of this state is gone from the topology or has other types.

    Otherwise take note of what the topology has; that is written with the next commit.
    """
    kept = set(topology.stores) | {builder.formerly for builder in topology.stores.values()} | set(topology.formerly.values())
    gone = [name for name in database.store_names() if name not in kept]
    if gone:
        raise StoreMismatchError(f"the state in {database.where}", "the stores", sorted(gone), sorted(topology.stores))
    rows = database.keyspace(_ABOUT)
    channels = {name: [channel.key.description, _text(channel.value)] for name, channel in topology.channels.items()}
    stored = rows.get(b"channels")
    known: Mapping[str, Any] = msgpack.unpackb(stored) if stored is not None else {}
    for name, types in known.items():
        now = msgpack.unpackb(msgpack.packb(channels[name])) if name in channels else None
        if now != types:
            raise StoreMismatchError(
                f"the state in {database.where}", f"the channel {name!r} of types", types, now if now else "no such channel"
            )
    packed = msgpack.packb(channels)
    if packed != stored:
        rows.put(b"channels", packed)


def was_finished(database: TaskDatabase) -> bool:
    """Whether an earlier run came to the end of all sources."""
    return database.keyspace(_ABOUT).get(b"finished") is not None


def note_finished(database: TaskDatabase) -> None:
    """All sources have ended and every sink has written its last batch: that is written with the next commit."""
    database.keyspace(_ABOUT).put(b"finished", b"1")


def _text(serde: Any) -> Any:
    return getattr(serde, "description", type(serde).__name__)
