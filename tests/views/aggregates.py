"""Queries for every aggregate, window function and function in FROM, over edge values of all types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from grid.edges import VALUES
from views.harness import Change, Relation

_NUMBERS = ("h", "i", "l", "m", "d")
_SUMMED = ("h", "i", "l", "m", "d::numeric(38,10)")  # sums of floats are not exact after deletes
_ORDERED = (*_NUMBERS, "r", "s", "u", "c", "t", "z")
_GATHERED = (*_ORDERED, "p", "g")
_CODES = (*_GATHERED, "b", "j", "ai", "al")
_PLAIN_FLOATS = (None, 0.0, 1.0, -1.0, 0.5, -2.5, 3.75, 100.0, 1e15, -0.25, 2.0)
"""Floats whose sums are the same in any order."""
_EXACT = {"d": _PLAIN_FLOATS, "l": tuple(each for each in VALUES["l"][1] if each is None or abs(each) < 2**53)}
RELATION = Relation(
    "e", {"k": "integer NOT NULL", "o": "integer", **{code: VALUES[code][0] for code in _CODES}}, ("k",)
)
"""A key, a group, and a column for each type, with its name in the grid."""
_GROUPED = "SELECT o, {} FROM e GROUP BY o"
_ALONE = "SELECT {} FROM e"
_WINDOW = "SELECT k, {} FROM e"
_TOGETHER = 24


def batches() -> Iterator[dict[str, list[Change]]]:
    """Yield changes: inserts, deletes and updates."""
    rows = [_row(number) for number in range(30)]
    yield {"e": [(row, 1) for row in rows]}
    yield {"e": [(row, -1) for row in rows[::4]]}
    yield {"e": [*((row, -1) for row in rows[1::4]), *((_row(row[0], 7), 1) for row in rows[1::4])]}


def _row(number: int, shift: int = 0) -> tuple[Any, ...]:
    return (number, number % 4 or None, *(_value(code, number * 3 + shift) for code in _CODES))


def _value(code: str, number: int) -> Any:
    values = _EXACT.get(code, VALUES[code][1])
    found = values[number % len(values)]
    return found.quantize(VALUES["m"][1][4]) if code == "m" and found is not None else found


def queries() -> dict[str, tuple[str, str]]:
    """Return the queries by name, each for SinkQL and for Postgres."""
    found = {f"groups of {name}": _both(_GROUPED, *calls) for name, calls in _aggregates().items()}
    found |= {f"all of {name}": _both(_ALONE, *calls) for name, calls in _aggregates().items()}
    found |= {f"windows of {name}": _both(_WINDOW, *calls) for name, calls in _windows().items()}
    others = {name: f"SELECT k, {outputs} FROM {rest}" for name, (outputs, rest) in _FROM.items()} | _OTHERS
    return found | {name: (sql, sql) for name, sql in others.items()}


def together() -> dict[str, tuple[str, str]]:
    """Return the same calls in fewer queries, for an engine with a high cost per query."""
    kinds = {"groups": (_GROUPED, _aggregates()), "all": (_ALONE, _aggregates()), "windows": (_WINDOW, _windows())}
    found: dict[str, tuple[str, str]] = {}
    for name, (query, calls) in kinds.items():
        every = [each for some in calls.values() for each in some]
        parts = -(-len(every) // _TOGETHER)
        found |= {f"{name} {part}": _both(query, *every[part::parts]) for part in range(parts)}
    union = " UNION ALL ".join(map(_named, _FROM))
    return found | {"from": (union, union)} | {name: (sql, sql) for name, sql in _OTHERS.items()}


def _named(name: str) -> str:
    outputs, rest = _FROM[name]
    shown = " || '|' || ".join(f"coalesce({each}::text, 'NULL')" for each in outputs.split(", "))
    return f"SELECT '{name}' AS name, k, {shown} AS x FROM {rest}"


def _both(query: str, *calls: str) -> tuple[str, str]:
    shown = ", ".join(f"{each} AS x{place}" for place, each in enumerate(calls))
    # Postgres may return any value; SinkQL returns the least
    return query.format(shown), re.sub(r"any_value\((\w+)\)", r"(array_agg(\1 ORDER BY \1))[1]", query.format(shown))


def _aggregates() -> dict[str, list[str]]:
    found = {"counts": ["count(*)", *(f"count({code})" for code in _CODES)]}
    found["distinct"] = [f"count(DISTINCT {code})" for code in _ORDERED]
    found["extremes"] = [f"{name}({code})" for code in _ORDERED for name in ("min", "max", "any_value")]
    found["extremes"] += ["min(b)", "max(b) FILTER (WHERE p)", "any_value(b)", "any_value(p)", "any_value(g)"]
    found["sums"] = [f"{name}({each})" for each in _SUMMED for name in ("sum", "avg")]
    found["filters"] = [f"sum({each}) FILTER (WHERE p)" for each in _SUMMED] + ["sum(DISTINCT i)", "avg(DISTINCT m)"]
    spread = ("variance", "var_samp", "var_pop", "stddev", "stddev_samp", "stddev_pop")
    found["variances"] = [f"{name}({code} % 100)" for code in ("h", "i") for name in spread]
    found["conditions"] = [f"{name}({each})" for name in ("bool_and", "bool_or", "every") for each in ("p", "i > 0")]
    found["bits"] = [f"{name}({code})" for code in ("h", "i", "l") for name in ("bit_and", "bit_or", "bit_xor")]
    found["lists"] = [f"array_agg({code} ORDER BY k)" for code in _GATHERED]
    found["texts"] = ["string_agg(s, ',' ORDER BY k)", "string_agg(DISTINCT s, '' ORDER BY s DESC)"]
    found["documents"] = [f"jsonb_agg({code} ORDER BY k)" for code in ("i", "s", "p", "j", "m")]
    found["documents"] += [
        "jsonb_object_agg(k::text, i ORDER BY k)",
        "jsonb_object_agg(coalesce(o, 0)::text || k, s ORDER BY k DESC)",
    ]
    within = "WITHIN GROUP (ORDER BY"
    found["percentiles"] = [f"percentile_disc({part}) {within} {code})" for code in _ORDERED for part in (0, 0.3, 1)]
    found["modes"] = [f"mode() {within} {code})" for code in _ORDERED]
    found["arrays in order"] = [
        "min(ai)",
        "max(ai) FILTER (WHERE p)",
        f"percentile_disc(0.3) {within} ai DESC)",
        "string_agg(k::text, ',' ORDER BY ai DESC NULLS LAST, k)",
    ]
    found["middles"] = [f"percentile_cont({part}) {within} d)" for part in (0, 0.3, 0.5, 1)]
    return found


def _windows() -> dict[str, list[str]]:
    over, peers = "OVER (PARTITION BY o ORDER BY k)", "OVER (PARTITION BY o ORDER BY i)"
    frame = "OVER (PARTITION BY o ORDER BY k ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING)"
    found = {"numbers": [f"row_number() {over}", f"ntile(3) {over}"]}
    found["ranks"] = [f"{name}() {peers}" for name in ("rank", "dense_rank", "percent_rank", "cume_dist")]
    found["ranks of arrays"] = ["rank() OVER (PARTITION BY o ORDER BY ai)", f"lag(ai) {over}"]
    found["rows beside"] = [f"{name}({code}) {over}" for code in _GATHERED for name in ("lag", "lead")]
    found["rows beside"] += [f"lag(i, 2, 7) {over}", f"lead(s, 3, 'none') {over}"]
    values = ("first_value({})", "last_value({})", "nth_value({}, 2)")
    found["values of frames"] = [f"{value.format(code)} {frame}" for code in _ORDERED for value in values]
    found["sums"] = [f"{name}({code}) {frame}" for code in _NUMBERS for name in ("sum", "avg", "min", "max", "count")]
    return found


_FROM = {
    "unnest": ("v, n", "e CROSS JOIN unnest(ai) WITH ORDINALITY r (v, n)"),
    "unnest of texts": ("v", "e LEFT JOIN LATERAL unnest(ARRAY[s, 'x', NULL]) r (v) ON true"),
    "generate_series": ("v", "e CROSS JOIN generate_series(-1, least(i, 3)) r (v)"),
    "generate_series by steps": ("v", "e CROSS JOIN generate_series(least(i, 9), 0, -2) r (v)"),
    "generate_series of days": (
        "v",
        "(SELECT k, least(greatest(t, '1900-01-01'), '2100-01-01') AS low FROM e) q "
        "CROSS JOIN generate_series(low, low + INTERVAL '2 days', INTERVAL '12 hours') r (v)",
    ),
    **{
        f"jsonb_{name}": (outputs, f"e CROSS JOIN jsonb_{name}(CASE jsonb_typeof(j) WHEN '{kind}' THEN j END) r{names}")
        for name, kind, outputs, names in (
            ("array_elements", "array", "v", " (v)"), ("array_elements_text", "array", "v", " (v)"),
            ("object_keys", "object", "v", " (v)"), ("each", "object", "r.key, r.value", ""),
            ("each_text", "object", "r.key, r.value", ""),
        )
    },
}  # fmt: skip
"""Outputs after the key, and the FROM clause."""
_OTHERS = {
    "first arrays": (
        "SELECT k, o, ai FROM (SELECT *, row_number() OVER (PARTITION BY o ORDER BY ai DESC, k) AS n FROM e) q "
        "WHERE n <= 2"
    ),
    "grouping": "SELECT grouping(o, p) AS x, o, p, count(*) AS n FROM e GROUP BY ROLLUP (o, p)",
}
