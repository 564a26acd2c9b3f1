"""Compaction of the fewest files that can be put together, so that a test sees it after a few batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sinkql.connectors.iceberg.compact import choose, keyed
from sinkql.connectors.iceberg.keyindex import fold


def compact_eagerly(patch: pytest.MonkeyPatch) -> None:
    """Let two files of like size be one too many, and fold the index each time."""
    patch.setattr(choose, "_TIERS", replace(choose._TIERS, fan=2))
    patch.setattr(keyed, "_FILES", replace(keyed._FILES, fan=3))
    patch.setattr(keyed, "_DELETES", replace(keyed._DELETES, fan=3))
    patch.setattr(keyed, "_AS_WELL", 2)
    patch.setattr(keyed, "_DEAD_ROWS", 1)
    patch.setattr(fold, "_SLACK", 0)
