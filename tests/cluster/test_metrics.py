"""What tasks count comes out as Prometheus metrics."""

from __future__ import annotations

from typing import Any

from prometheus_client import generate_latest

import raystreams as rs


def doubled(value: int) -> int:
    if value < 0:
        raise ValueError("negative")
    return 2 * value


def topology() -> rs.Topology:
    builder = rs.StreamsBuilder()
    numbers = builder.stream(rs.Topic("numbers", key=str, value=int))
    numbers.map_values(doubled, name="double", on_error=rs.DeadLetter("failed")).to("doubled")
    numbers.group_by_key().windowed_by(rs.TimeWindows(10)).count(name="counts")
    return builder.build()


def test_every_record_that_is_left_out_is_counted_by_operator_and_reason() -> None:
    with rs.TopologyTestDriver(topology(), partitions=3) as driver:
        for value, key, time in ((1, "a", 100), (-1, "a", 101), (2, "b", 5), (3, "a", 6), (4, None, 102)):
            driver.input_topic("numbers").send(value, key=key, timestamp=time)
        dropped = driver.dropped
        metrics = driver.metrics

        def value_of(name: str, **labels: str) -> float | None:
            return metrics.get_sample_value(name, labels)

        for (operator, reason), count in dropped.items():
            assert value_of("raystreams_dropped_records_total", operator=operator, reason=reason) == count
        assert set(dropped) == {("double", "error"), ("counts", "late"), ("counts", "null key")}
        assert value_of("raystreams_dead_letters_total", topic="failed", reason="ValueError") == 1


def test_a_running_job_gives_the_text_that_prometheus_reads() -> None:
    rows: list[dict[str, Any]] = [{"k": "a", "n": 1, "at": 1}]
    job = rs.Job(
        "metrics", topology(), sources={"numbers": rs.Rows(rows, key="k", timestamp="at", value="n")},
        sinks={"doubled": rs.Collect(), "failed": rs.Collect()},
    )  # fmt: skip

    with job.start() as running:
        running.wait(20)
        text = generate_latest(running.metrics).decode()

    assert 'raystreams_written_records_total{partition="0",topic="doubled"} 1.0' in text
