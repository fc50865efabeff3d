"""Records of jobs, and their code, in the key-value store of Ray's head."""

from __future__ import annotations

from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_list, _internal_kv_put
from raystreams.cluster.job_record import JobRecord, decode, encode
from raystreams.cluster.names import NAMESPACE, RECORDS, bundle_key, record_key

_SPACE = NAMESPACE.encode()


class RayRecords:
    """The records of all jobs of a cluster."""

    def load(self, job: str) -> JobRecord | None:
        """Return a job's record."""
        data = _internal_kv_get(record_key(job), namespace=_SPACE)
        return None if data is None else decode(data)

    def save(self, record: JobRecord) -> None:
        """Write a job's record."""
        _internal_kv_put(record_key(record.job), encode(record), overwrite=True, namespace=_SPACE)

    def jobs(self) -> list[str]:
        """Return the names of all jobs that were ever submitted here."""
        return sorted(key[len(RECORDS) :].decode() for key in _internal_kv_list(RECORDS, namespace=_SPACE))

    def bundle(self, job: str) -> bytes | None:
        """Return a job's code."""
        data: bytes | None = _internal_kv_get(bundle_key(job), namespace=_SPACE)
        return data

    def save_bundle(self, job: str, bundle: bytes) -> None:
        """Write a job's code."""
        _internal_kv_put(bundle_key(job), bundle, overwrite=True, namespace=_SPACE)

    def forget(self, job: str) -> None:
        """Delete a job's record and code."""
        _internal_kv_del(record_key(job), namespace=_SPACE)
        _internal_kv_del(bundle_key(job), namespace=_SPACE)
