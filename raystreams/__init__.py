"""raystreams: Kafka Streams' processing model in Python, on Ray, with no broker in the middle.

This list is the public surface; everything else may change. Names are loaded when first used, so that importing
raystreams stays cheap and `raystreams.stores` needs nothing of the cluster.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raystreams.cluster.client import Client as Client
    from raystreams.cluster.client import connect as connect
    from raystreams.cluster.cluster_settings import ClusterSettings as ClusterSettings
    from raystreams.cluster.connectors.base import BadRow as BadRow
    from raystreams.cluster.connectors.base import ColumnBatch as ColumnBatch
    from raystreams.cluster.connectors.base import Sink as Sink
    from raystreams.cluster.connectors.base import SinkBatch as SinkBatch
    from raystreams.cluster.connectors.base import SinkWriter as SinkWriter
    from raystreams.cluster.connectors.base import Source as Source
    from raystreams.cluster.connectors.base import SourceRecord as SourceRecord
    from raystreams.cluster.connectors.base import Wait as Wait
    from raystreams.cluster.connectors.collect import Collect as Collect
    from raystreams.cluster.connectors.conformance import check_sink as check_sink
    from raystreams.cluster.connectors.conformance import check_source as check_source
    from raystreams.cluster.connectors.csv import CsvSource as CsvSource
    from raystreams.cluster.connectors.csv_sink import CsvSink as CsvSink
    from raystreams.cluster.connectors.frame import FrameSource as FrameSource
    from raystreams.cluster.connectors.jsonl import JsonLinesSink as JsonLinesSink
    from raystreams.cluster.connectors.jsonl import JsonLinesSource as JsonLinesSource
    from raystreams.cluster.connectors.parquet import ParquetSource as ParquetSource
    from raystreams.cluster.connectors.parquet_sink import ParquetSink as ParquetSink
    from raystreams.cluster.connectors.rows import Rows as Rows
    from raystreams.cluster.errors import BadRowError as BadRowError
    from raystreams.cluster.errors import ConfigError as ConfigError
    from raystreams.cluster.errors import JobFailedError as JobFailedError
    from raystreams.cluster.errors import NotAvailableError as NotAvailableError
    from raystreams.cluster.errors import RetryLater as RetryLater
    from raystreams.cluster.errors import SinkError as SinkError
    from raystreams.cluster.errors import SourceError as SourceError
    from raystreams.cluster.job import Job as Job
    from raystreams.cluster.job import Output as Output
    from raystreams.cluster.job import Result as Result
    from raystreams.cluster.job import RunningJob as RunningJob
    from raystreams.cluster.progress import Progress as Progress
    from raystreams.cluster.progress import Summary as Summary
    from raystreams.cluster.simulation import check_crashes as check_crashes
    from raystreams.cluster.statuses import JobStatus as JobStatus
    from raystreams.cluster.statuses import TaskStatus as TaskStatus
    from raystreams.cluster.submitted import SubmittedJob as SubmittedJob
    from raystreams.cluster.testing import TopologyTestDriver as TopologyTestDriver
    from raystreams.operators.aggregations import Aggregates as Aggregates
    from raystreams.operators.aggregations import Aggregation as Aggregation
    from raystreams.operators.aggregations import Count as Count
    from raystreams.operators.aggregations import First as First
    from raystreams.operators.aggregations import Last as Last
    from raystreams.operators.aggregations import Max as Max
    from raystreams.operators.aggregations import Mean as Mean
    from raystreams.operators.aggregations import Min as Min
    from raystreams.operators.aggregations import Sum as Sum
    from raystreams.operators.builder import StreamsBuilder as StreamsBuilder
    from raystreams.operators.cogrouped import CogroupedKStream as CogroupedKStream
    from raystreams.operators.cogrouped import WindowedCogroupedKStream as WindowedCogroupedKStream
    from raystreams.operators.errors import BufferFullError as BufferFullError
    from raystreams.operators.errors import ProcessingError as ProcessingError
    from raystreams.operators.errors import TopologyError as TopologyError
    from raystreams.operators.graph import Topology as Topology
    from raystreams.operators.grouped import KGroupedStream as KGroupedStream
    from raystreams.operators.grouped_table import KGroupedTable as KGroupedTable
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
    from raystreams.operators.rolling import RollingKStream as RollingKStream
    from raystreams.operators.windowed import SessionWindowedKStream as SessionWindowedKStream
    from raystreams.operators.windowed import TimeWindowedKStream as TimeWindowedKStream
    from raystreams.operators.windows import JoinWindows as JoinWindows
    from raystreams.operators.windows import SessionWindows as SessionWindows
    from raystreams.operators.windows import SlidingWindows as SlidingWindows
    from raystreams.operators.windows import TimeWindows as TimeWindows
    from raystreams.operators.windows import UnlimitedWindows as UnlimitedWindows
    from raystreams.stores.builders import Stores as Stores
    from raystreams.stores.errors import ClosedStoreError as ClosedStoreError
    from raystreams.stores.errors import CorruptedStoreError as CorruptedStoreError
    from raystreams.stores.errors import RaystreamsError as RaystreamsError
    from raystreams.stores.errors import SerdeError as SerdeError
    from raystreams.stores.errors import StateLockedError as StateLockedError
    from raystreams.stores.errors import StoreError as StoreError
    from raystreams.stores.errors import StoreMismatchError as StoreMismatchError
    from raystreams.stores.serdes import Serde as Serde
    from raystreams.stores.serdes import serde as serde
    from raystreams.stores.values import PUT_LATEST as PUT_LATEST
    from raystreams.stores.values import PUT_REFUSED as PUT_REFUSED
    from raystreams.stores.values import ValueAndTimestamp as ValueAndTimestamp
    from raystreams.stores.values import VersionedRecord as VersionedRecord
    from raystreams.stores.values import Windowed as Windowed

_HOMES = {
    "operators.aggregations": ("Aggregates", "Aggregation", "Count", "First", "Last", "Max", "Mean", "Min", "Sum"),
    "operators.builder": ("StreamsBuilder",),
    "operators.cogrouped": ("CogroupedKStream", "WindowedCogroupedKStream"),
    "operators.errors": ("BufferFullError", "ProcessingError", "TopologyError"),
    "operators.graph": ("Topology",),
    "operators.grouped": ("KGroupedStream",),
    "operators.grouped_table": ("KGroupedTable",),
    "operators.kstream": ("KStream",),
    "operators.ktable": ("GlobalKTable", "KTable"),
    "operators.options": (
        "Consumed", "DeadLetter", "EmitStrategy", "Joined", "Materialized", "Produced", "Repartitioned", "StreamJoined",
        "Suppressed", "TableJoined", "Topic",
    ),
    "operators.processor": ("Processor",),
    "operators.processor_context": ("ProcessorContext",),
    "operators.record": ("Record",),
    "operators.rolling": ("RollingKStream",),
    "operators.windowed": ("SessionWindowedKStream", "TimeWindowedKStream"),
    "operators.windows": ("JoinWindows", "SessionWindows", "SlidingWindows", "TimeWindows", "UnlimitedWindows"),
    "stores.builders": ("Stores",),
    "stores.errors": (
        "ClosedStoreError", "CorruptedStoreError", "RaystreamsError", "SerdeError", "StateLockedError", "StoreError",
        "StoreMismatchError",
    ),
    "stores.serdes": ("Serde", "serde"),
    "stores.values": (
        "PUT_LATEST", "PUT_REFUSED", "ValueAndTimestamp", "VersionedRecord", "Windowed",
    ),
    "cluster.client": ("Client", "connect"),
    "cluster.cluster_settings": ("ClusterSettings",),
    "cluster.connectors.base": (
        "BadRow", "ColumnBatch", "Sink", "SinkBatch", "SinkWriter", "Source", "SourceRecord", "Wait",
    ),
    "cluster.connectors.collect": ("Collect",),
    "cluster.connectors.conformance": ("check_sink", "check_source"),
    "cluster.connectors.csv": ("CsvSource",),
    "cluster.connectors.csv_sink": ("CsvSink",),
    "cluster.connectors.frame": ("FrameSource",),
    "cluster.connectors.jsonl": ("JsonLinesSink", "JsonLinesSource"),
    "cluster.connectors.parquet": ("ParquetSource",),
    "cluster.connectors.parquet_sink": ("ParquetSink",),
    "cluster.connectors.rows": ("Rows",),
    "cluster.errors": (
        "BadRowError", "ConfigError", "JobFailedError", "NotAvailableError", "RetryLater", "SinkError", "SourceError",
    ),
    "cluster.job": ("Job", "Output", "Result", "RunningJob"),
    "cluster.progress": ("Progress", "Summary"),
    "cluster.simulation": ("check_crashes",),
    "cluster.statuses": ("JobStatus", "TaskStatus"),
    "cluster.submitted": ("SubmittedJob",),
    "cluster.testing": ("TopologyTestDriver",),
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
