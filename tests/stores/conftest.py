"""`home(builder)` opens a store in each kind of home; a test that uses it runs once a kind.

Properties have no deadline: these tests share their machine with others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from raystreams.stores.builders import StoreBuilder

from tests.stores.homes import KINDS, Home, make_home

settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")

MakeHome = Callable[[StoreBuilder[Any]], Home]


@pytest.fixture(params=KINDS)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeHome]:
    homes: list[Home] = []

    def make(builder: StoreBuilder[Any]) -> Home:
        homes.append(make_home(request.param, builder, tmp_path / str(len(homes))))
        return homes[-1]

    yield make
    for made in homes:
        made.close()
