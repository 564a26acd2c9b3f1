"""The list of functions, the planner and the lowerings agree: each entry is planned by some call and has its forms."""

from __future__ import annotations

import re

from expressions import vectors
from sinkql import logical
from sinkql.errors import SinkqlError
from sinkql.logical.expression import walk
from sinkql.logical.function import AGGREGATES, FUNCTIONS
from sinkql.logical.range import SUBTYPES
from sinkql.lowering.spark.expression import FORMS, spark_sql
from sinkql.planner.function import call as functions

_COLUMNS = {
    "h": "smallint", "i": "integer", "l": "bigint", "n": "numeric(12,2)", "r": "real", "d": "double precision",
    "s": "text", "b": "bytea", "p": "boolean", "j": "jsonb", "u": "date", "t": "timestamp", "z": "timestamptz",
    "v": "uint2", "w": "uint4", "x": "uint8", "y": "interval", "m": "int4range",
    "q": "map[text=>integer]", "k": "record(a integer)",
}  # fmt: skip
# calls of entries that no vector has
_CALLS = (
    *(f"{a} {operator} {a}" for a in "hil" for operator in ("#", "&", "|", "*", "-")),
    *(f"{a} {operator} {a}" for a in "vwx" for operator in "+-*/%&|#"), "~v", "~w", "~x",
    *(f"{a} {operator} {a}" for a in "rd" for operator in ("*", "+", "-")),
    "~h", "~l", "-h", "-r", "abs(h)", "abs(r)", "abs(n)", "l << 1", "l >> 1", "u + h", "u - h", "i <= 1",
    *(f"t + {a} * INTERVAL '1 day'" for a in "hil"), "z - z",
    *(f"t - t {operator} INTERVAL '1 day'" for operator in ("=", "<>", "<=", ">=")),
    "t - t IS NOT DISTINCT FROM INTERVAL '1 day'",
    "s ILIKE 'a#%' ESCAPE '#'", "ascii(s)", "btrim(s)", "initcap(s)", "rpad(s, 9)", "substring(s, 2)",
    *(f"{name}(m)" for name in ("lower", "upper", "isempty", "lower_inc", "upper_inc", "lower_inf", "upper_inf")),
    "m @> i", "m && m", "m > m", *(f"{name}(NULL, NULL)" for name in SUBTYPES),
    "q -> s", "q ? s", "(k).a", "ROW(i, s)", "MAP[s => i]",
    "y > '1 day'", "coalesce(t - t, y)",
    "format('%s', i)",
    "cos(d)", "tan(d)", "degrees(d)", "div(n, n)", "to_hex(l)", "sha224(b)", "sha384(b)", "num_nulls(i, s)",
    "date_bin('1 hour', t, t)", "date_part('day', u)", "date_part('day', z)", "date_part('day', t - t)", "isfinite(u)",
    "isfinite(z)", "to_char(z, 'YYYY')", "to_char(i, '9')", "to_char(l, '9')", "to_char(n, '9')", "to_char(r, '9')",
    "to_char(d, '9EEEE')",
    "jsonb_build_array()",
    "to_jsonb(h)", "to_jsonb(l)", "to_jsonb(p)", "to_jsonb(s)", "to_jsonb(n)",
)  # fmt: skip
# Spark has no value for a number times an interval: it is computed within the sum around it
_WITHIN = {f"*({type_},interval)" for type_ in ("smallint", "integer", "bigint")}
_GUARDS = {
    "$sum(double precision,double precision)",
    "$avg(double precision,double precision,bigint)",
    "$root(numeric)",
    "$single(bigint,any)",
    "$key(text)",
}

# set-returning functions, which tests/views and tests/operators run
_OF_ROWS = {each for each in FUNCTIONS if each.startswith(("$flat(", "$series(", "$jsonb_"))}


def test_every_entry_has_a_spark_form_and_every_form_an_entry() -> None:
    assert sorted(FUNCTIONS.keys() - _WITHIN) == sorted(FORMS)


def test_every_entry_is_planned_by_some_call_and_rendered() -> None:
    found: set[str] = set()
    for expression in _expressions():
        assert "@" not in re.sub(r"'(\\.|[^'\\])*'", "", spark_sql(expression)), expression
        found |= {node.function for node in walk(expression) if isinstance(node, logical.Call)}
    assert found <= FUNCTIONS.keys()
    assert sorted(FUNCTIONS.keys() - found - _GUARDS - _OF_ROWS) == []


def _expressions() -> list[logical.Expression]:
    found = [vectors.expression(text, _COLUMNS) for text in _CALLS]
    for vector in vectors.load():
        plan = vectors.planned(vector)
        if not isinstance(plan, SinkqlError):
            found += _of(plan.relation)
    return found


def _of(relation: logical.Relation) -> list[logical.Expression]:
    below = [each for one in logical.inputs_of(relation) for each in _of(one)]
    return [*logical.expressions_of(relation), *below]


def test_every_name_that_users_call_has_an_entry_or_is_an_operator_by_name() -> None:
    listed = {each.name.lower() for each in FUNCTIONS.values()}
    aliases = {functions.ALIASES.get(name, name) for name in functions.NAMES}
    assert sorted(aliases - listed) == [
        "jsonb_extract_path", "jsonb_extract_path_text", "make_interval", "make_timestamptz", "mod",
        "regexp_like", "substr",
    ]  # fmt: skip


def test_aggregates_of_plans_are_a_few_that_others_are_made_of() -> None:
    assert AGGREGATES.keys() <= set(functions.AGGREGATES)
