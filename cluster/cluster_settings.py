"""What a job asks of a cluster: the table [cluster] of a job file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from raystreams.cluster.config import Bytes
from raystreams.cluster.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """What each task takes of its node, as Ray counts it (`memory` in bytes), and how many standbys it has on other nodes.

    A task only goes to nodes that have its `resources` free and carry its `labels`. ConfigError for a number that can't be.
    """

    num_cpus: float = 1
    memory: Bytes | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    standby_replicas: int = 0

    def __post_init__(self) -> None:
        if self.num_cpus < 0 or (self.memory is not None and self.memory < 0) or any(n < 0 for n in self.resources.values()):
            raise ConfigError("num_cpus, memory and resources of a task can't be negative")
        if self.standby_replicas < 0:
            raise ConfigError(f"standby_replicas can't be negative, got {self.standby_replicas}")
