"""Make maintenance due after very few files and batches, so that a short test sees it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sinkql.connectors.iceberg.commit import maintenance
from sinkql.connectors.iceberg.compact import selection
from sinkql.connectors.iceberg.key_index import compaction
from sinkql.connectors.iceberg.write import maintenance as iceberg_maintenance
from sinkql.runtime.batch import maintenance as table_maintenance


def compact_eagerly(patch: pytest.MonkeyPatch) -> None:
    """Compact two files of like size, compact the index each time, and delete orphan files of any age."""
    patch.setattr(maintenance, "_OLD", -10.0)
    patch.setattr(selection, "_TIERS", replace(selection._TIERS, fan=2))
    files, deletes = replace(selection._LEAST.files, fan=3), replace(selection._LEAST.deletes, fan=3)
    patch.setattr(
        selection, "_LEAST", replace(selection._LEAST, files=files, deletes=deletes, as_well=(2, 2), dead_rows=1)
    )
    patch.setattr(compaction, "_SLACK", 0)


def expire_hastily(patch: pytest.MonkeyPatch) -> None:
    """Expire snapshots if there are two too many, and sweep unreferenced files after every second batch."""
    patch.setattr(maintenance, "_AT_ONCE", 2)
    patch.setattr(iceberg_maintenance, "_SWEEP_EVERY", 2)
    patch.setattr(table_maintenance, "_SWEEP_EVERY", 2)
