"""raystreams: Kafka Streams' processing model in Python, on Ray, with no broker in the middle.

This list is the public surface; everything else may change. Names are loaded when first used, so that importing
raystreams stays cheap and `raystreams.stores` needs nothing of the cluster.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raystreams.operators.builder import StreamsBuilder as StreamsBuilder
    from raystreams.operators.errors import BufferFullError as BufferFullError
    from raystreams.operators.errors import ProcessingError as ProcessingError
    from raystreams.operators.errors import TopologyError as TopologyError
    from raystreams.operators.graph import Topology as Topology
    from raystreams.operators.kstream import KStream as KStream
    from raystreams.operators.ktable import GlobalKTable as GlobalKTable
    from raystreams.operators.ktable import KTable as KTable
    from raystreams.operators.options import Consumed as Consumed
    from raystreams.operators.options import DeadLetter as DeadLetter
    from raystreams.operators.options import EmitStrategy as EmitStrategy
    from raystreams.operators.options import Joined as Joined
    from raystreams.operators.options import Materialized as Materialized
    from raystreams.operators.options import Produced as Produced
    from raystreams.operators.options import Repartitioned as Repartitioned
    from raystreams.operators.options import StreamJoined as StreamJoined
    from raystreams.operators.options import Suppressed as Suppressed
    from raystreams.operators.options import TableJoined as TableJoined
    from raystreams.operators.options import Topic as Topic
    from raystreams.operators.processor import Processor as Processor
    from raystreams.operators.processor_context import ProcessorContext as ProcessorContext
    from raystreams.operators.record import Record as Record
    from raystreams.operators.windows import JoinWindows as JoinWindows
    from raystreams.operators.windows import SessionWindows as SessionWindows
    from raystreams.operators.windows import SlidingWindows as SlidingWindows
    from raystreams.operators.windows import TimeWindows as TimeWindows
    from raystreams.operators.windows import UnlimitedWindows as UnlimitedWindows

_HOMES = {
    "operators.builder": ("StreamsBuilder",),
    "operators.errors": ("BufferFullError", "ProcessingError", "TopologyError"),
    "operators.graph": ("Topology",),
    "operators.grouped": ("KGroupedStream",),
    "operators.kstream": ("KStream",),
    "operators.ktable": ("GlobalKTable", "KTable"),
    "operators.options": (
        "Consumed", "DeadLetter", "EmitStrategy", "Joined", "Materialized", "Produced", "Repartitioned", "StreamJoined",
        "Suppressed", "TableJoined", "Topic",
    ),
    "operators.processor": ("Processor",),
    "operators.processor_context": ("ProcessorContext",),
    "operators.record": ("Record",),
    "operators.windows": ("JoinWindows", "SessionWindows", "SlidingWindows", "TimeWindows", "UnlimitedWindows"),
    "stores.builders": ("Stores",),
    "stores.errors": (
        "CorruptedStoreError", "RaystreamsError", "SerdeError", "StoreError", "StoreMismatchError",
    ),
    "stores.serdes": ("Serde", "serde"),
    "stores.values": (
        "PUT_LATEST", "PUT_REFUSED", "ValueAndTimestamp", "VersionedRecord", "Windowed",
    ),
    "cluster.testing": ("TopologyTestDriver",),
    "cluster.simulation": ("check_crashes",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'raystreams' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"raystreams.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
