"""How long tests wait for what must come: far longer than it takes on a slow machine under load."""

from __future__ import annotations

PATIENCE_S = 900.0
"""Seconds. It only decides when a test that hangs is given up."""
