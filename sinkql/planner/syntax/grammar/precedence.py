"""How closely operators bind, in the order of Postgres."""

from __future__ import annotations

OR, AND, NOT, IS, COMPARED, RANGE, OTHER, SUM, PRODUCT, POWER, AT, COLLATE, SIGNED = range(1, 14)
