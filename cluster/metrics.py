"""What tasks count, as Prometheus metrics: every record that was left out by operator and reason, dead letters, records
written, and the stream time of each sub-topology and partition.

The numbers are those of the tasks themselves, read when they are asked for: nothing is counted twice, and nothing is done
for a record. Counters belong to the commit, so they go on after a restart where they were.

    driver.metrics.get_sample_value("raystreams_dropped_records_total", {"operator": "means", "reason": "late"})
    prometheus_client.generate_latest(running.metrics)      # the text that Prometheus reads
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from raystreams.cluster.task import PartitionTask

Counts = Mapping[tuple[str, str], int]


class TaskMetrics(Collector):
    """Reads the counters of all tasks of a job."""

    def __init__(self, tasks: Callable[[], Sequence[PartitionTask]]) -> None:
        self._tasks = tasks

    def collect(self) -> Iterable[Metric]:
        """Give the metrics as they are now."""
        tasks = self._tasks()
        yield _counter(
            "raystreams_dropped_records", "Records left out.", ("operator", "reason"), [task.host.dropped for task in tasks]
        )
        yield _counter(
            "raystreams_dead_letters", "Records sent to a dead-letter topic.", ("topic", "reason"),
            [task.host.dead_letters for task in tasks],
        )  # fmt: skip
        written = CounterMetricFamily("raystreams_written_records", "Records given to sinks.", labels=("topic", "partition"))
        times = GaugeMetricFamily(
            "raystreams_stream_time_milliseconds", "The largest timestamp seen.", labels=("sub_topology", "partition")
        )
        for task in tasks:
            for topic, count in list(task.outputs.written.items()):
                written.add_metric((topic, str(task.partition)), count)
            for sub in task.topology.sub_topologies:
                times.add_metric((str(sub.id), str(task.partition)), task.host.stream_time(sub.id))
        yield written
        yield times


def metrics_of(tasks: Callable[[], Sequence[PartitionTask]]) -> CollectorRegistry:
    """A registry of its own for a job, which nothing else adds to."""
    registry = CollectorRegistry()
    registry.register(TaskMetrics(tasks))
    return registry


def _counter(name: str, text: str, labels: tuple[str, str], counts: Iterable[Counts]) -> CounterMetricFamily:
    total: dict[tuple[str, str], int] = {}
    for of_task in counts:
        for pair, count in list(of_task.items()):
            total[pair] = total.get(pair, 0) + count
    family = CounterMetricFamily(name, text, labels=labels)
    for pair, count in total.items():
        family.add_metric(pair, count)
    return family
