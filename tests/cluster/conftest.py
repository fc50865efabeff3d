"""Fixtures of tests of the cluster layer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.remote_jobs import Tasks


@pytest.fixture(params=[1, 3])
def tasks(request: pytest.FixtureRequest) -> Iterator[Tasks]:
    """The tasks of a filled job with stores of all kinds, to be asked as from another process."""
    made = Tasks(request.param)
    made.fill()
    yield made
    made.close()
