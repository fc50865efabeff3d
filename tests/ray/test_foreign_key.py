"""A foreign-key join whose tables' partitions lie on different nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from raystreams.cluster import submission
from raystreams.cluster.task_table import status_text

from raystreams import ClusterSettings
from tests.ray import fk_job
from tests.ray.clusters import machines

pytestmark = pytest.mark.slow


def test_a_foreign_key_join_crosses_nodes_and_is_that_of_sql(tmp_path: Path) -> None:
    fk_job.write_data(tmp_path, 10_000, 3)
    with machines(2):
        submission.submit(fk_job.job_of(tmp_path, tmp_path, cluster=ClusterSettings(num_cpus=0.5)))
        status = submission.follow("orders")

    assert (status.state, status.error) == ("finished", None)
    assert len({task.node for task in status.tasks}) == 2
    assert status.crossed_nodes > 1_000
    assert "records went from one node to another" in status_text(status)
    assert fk_job.final_tables(tmp_path) == fk_job.sql_tables(tmp_path)
