"""Maintenance of the fewest and youngest files that there can be, so that a test sees it after a few batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sinkql.connectors.iceberg.commit import maintenance
from sinkql.connectors.iceberg.compact import selection
from sinkql.connectors.iceberg.key_index import compaction
from sinkql.connectors.iceberg.write import maintenance as iceberg_maintenance
from sinkql.runtime.batch import maintenance as table_maintenance


def compact_eagerly(patch: pytest.MonkeyPatch) -> None:
    """Let two files of like size be one too many, fold the index each time, and wait for no left file to be old."""
    patch.setattr(maintenance, "_OLD", -10.0)
    patch.setattr(selection, "_TIERS", replace(selection._TIERS, fan=2))
    files, deletes = replace(selection._LEAST.files, fan=3), replace(selection._LEAST.deletes, fan=3)
    patch.setattr(
        selection, "_LEAST", replace(selection._LEAST, files=files, deletes=deletes, as_well=(2, 2), dead_rows=1)
    )
    patch.setattr(compaction, "_SLACK", 0)


def expire_hastily(patch: pytest.MonkeyPatch) -> None:
    """Expire snapshots when there are two too many, and sweep what nothing needs after each second batch."""
    patch.setattr(maintenance, "_AT_ONCE", 2)
    patch.setattr(iceberg_maintenance, "_SWEEP_EVERY", 2)
    patch.setattr(table_maintenance, "_SWEEP_EVERY", 2)
