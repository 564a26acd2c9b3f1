"""Maintenance of the fewest and youngest files that there can be, so that a test sees it after a few batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sinkql.connectors.iceberg.commit import leftover
from sinkql.connectors.iceberg.compact import choose, keyed
from sinkql.connectors.iceberg.keyindex import fold


def compact_eagerly(patch: pytest.MonkeyPatch) -> None:
    """Let two files of like size be one too many, fold the index each time, and wait for no left file to be old."""
    patch.setattr(leftover, "_OLD", -10.0)
    patch.setattr(choose, "_TIERS", replace(choose._TIERS, fan=2))
    files, deletes = replace(keyed._LEAST.files, fan=3), replace(keyed._LEAST.deletes, fan=3)
    patch.setattr(keyed, "_LEAST", replace(keyed._LEAST, files=files, deletes=deletes, as_well=2, dead_rows=1))
    patch.setattr(fold, "_SLACK", 0)
