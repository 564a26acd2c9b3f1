"""Generate the pages of functions and their index from the help on functions and its examples' results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docs.function_examples import CLOCK, GROUPED, WINDOWS, Help, Shown, read, results
from docs.markdown_parts import bullets, cell, code, escaped, front_matter, paragraph, table
from sinkql.logical.function import CASTS
from sinkql.parser.hint.other_dialects import habits
from sinkql.planner.function import call

_TABLE = """CREATE TABLE t (id integer PRIMARY KEY, n integer, s text);

INSERT INTO t (id, n, s) VALUES (1, 1, 'a'), (2, 4, 'b'), (3, 4, 'c'), (4, NULL, 'd');
"""
_CLOCK = """CREATE TABLE events (id bigint PRIMARY KEY, created_at timestamptz NOT NULL);

CREATE MATERIALIZED VIEW last_hour AS
SELECT id, created_at
FROM events
WHERE mz_now() <= created_at + INTERVAL '1 hour';
"""
_CASTS = [
    "A cast that fails on a row is an error, as in Postgres.",
    "A numeric without a scale has no exact text. Cast it to `numeric(p, s)` first, then to text.",
    "`real` and `double precision` cannot be cast to text. Cast them to `numeric(p, s)` first.",
    "A number that is cast to a whole number is rounded: `2.5::integer` is 3, as in Postgres.",
    "Text is cast to dates, times, numbers and bytea in fewer forms than in Postgres. Another form is an error.",
    "Constants in quotes can have any type: `'1 day'::interval`, `'{1,2}'::integer[]`, `'[1,5)'::int4range`.",
    "`x::numeric` is `numeric(38, 10)`. Write a scale to keep more digits.",
    "`ROW(…)::record(id integer, name text)` names the fields of a record.",
]
_SHORT = {
    "double precision": "double", "boolean": "bool", "smallint": "int2", "integer": "int4", "bigint": "int8",
    "timestamp": "ts", "timestamptz": "tstz", "interval": "interval", "numeric": "numeric",
}  # fmt: skip


def pages() -> dict[str, str]:
    """Return the pages by their paths under docs/."""
    described, helps = read()
    found = {f"functions/{name}.md": _page(name, about, helps) for name, about in described.items()}
    return {**found, "functions/casts.md": _casts(), "functions/index.md": _index(described, helps)}


def _page(name: str, about: Mapping[str, Any], helps: tuple[Help, ...]) -> str:
    parts = [front_matter(*about["keywords"]), f"# {about['title']}\n", paragraph(about["about"])]
    if name in (GROUPED, WINDOWS):
        parts += ["The examples read these rows:\n", f"```sql\n{_TABLE}```\n"]
    if name == WINDOWS:
        parts.append("Results are in the order of `id`, one for each row.\n")
    if name == CLOCK:
        parts += ["This view keeps the events of the last hour:\n", f"```sql\n{_CLOCK}```\n"]
    rows = [row for each in helps if each.page == name for row in _rows(each)]
    parts.append(table(("function", "description", "example", "result"), rows))
    notes = [*about.get("notes", ()), *(each.note for each in helps if each.page == name and each.note)]
    parts += ["## Notes\n", bullets(notes), "## See also\n", _links(name)]
    return "\n".join(parts)


def _rows(each: Help) -> list[tuple[str, str, str, str]]:
    """Return the rows of a function: its forms beside its examples, with the description in the first row."""
    shown = [_result(each, example) for example in each.examples]
    found = []
    for number in range(max(len(each.forms), len(shown))):
        form = code(each.forms[number]) if number < len(each.forms) else ""
        example, result = shown[number] if number < len(shown) else ("", "")
        found.append((form, cell(each.about) if number == 0 else "", example, result))
    return found


def _result(each: Help, example: str) -> tuple[str, str]:
    if each.page == CLOCK:
        return code(example), "rows of the last hour"
    shown: Shown = results()[each.name, example]
    return code(example), code(shown.text)


def _links(name: str) -> str:
    found = ["[All functions](index.md)", "[Casts](casts.md)"]
    if name in (GROUPED, WINDOWS, "set-returning", CLOCK):
        found.append("[Queries](../sql/queries.md)")
    if name == CLOCK:
        found.append("[SQL patterns](../how-to/views-patterns.md)")
    if name in ("arrays-lists", "maps-records", "ranges", "jsonb", "date-time", "numbers"):
        found.append("[Types](../reference/types.md)")
    found.append("[Differences from Postgres and Materialize](../sql/differences.md)")
    return bullets(found)


# --- casts -----------------------------------------------------------------------------------------------------------


def _casts() -> str:
    names = list(dict.fromkeys([*(a for a, _ in CASTS), *(b for _, b in CASTS)]))
    ranges = [each for each in names if each.endswith("range")]
    shown = [each for each in names if each not in ranges]
    targets = [each for each in shown if any(b == each for _, b in CASTS)]
    rows = []
    for source in shown:
        marks = ["=" if source == to else "●" if (source, to) in CASTS else "" for to in targets]
        rows.append((f"`{source}`", *marks))
    parts = [
        front_matter("convert", "conversion", "type cast", "to_number", "parse"),
        "# Casts\n",
        "Look up which types convert to which.\n",
        paragraph(
            "Write `value::type` or `CAST(value AS type)`. A row is the type of the value, a column is the "
            "target. `●` is a cast, `=` the same type."
        ),
        table(("from", *(f"`{_SHORT.get(each, each)}`" for each in targets)), rows),
        f"Ranges ({', '.join(f'`{each}`' for each in ranges)}) can be cast to `text`.\n",
        paragraph(
            "Column heads are short: `int2` is `smallint`, `int4` is `integer`, `int8` is `bigint`, `double` is "
            "`double precision`, `ts` is `timestamp` and `tstz` is `timestamptz`."
        ),
        "## Notes\n",
        bullets(_CASTS),
        "## See also\n",
        bullets(["[Types](../reference/types.md)", "[All functions](index.md)"]),
    ]
    return "\n".join(parts)


# --- the index -------------------------------------------------------------------------------------------------------


def _index(described: Mapping[str, Mapping[str, Any]], helps: tuple[Help, ...]) -> str:
    named = [each for each in helps if each.name[0].islower() and each.name != "text ~ pattern"]
    parts = [
        front_matter("function list", "built-in", "reference", "unsupported functions"),
        "# Functions\n",
        "Find a function or operator, or the replacement for a function of another system.\n",
        "A test runs each example of these pages in SinkQL and in Postgres 18. Both print the same.\n",
        "## By category\n",
        table(
            ("page", "for"),
            [
                *((f"[{about['title']}]({name}.md)", cell(about["about"])) for name, about in described.items()),
                ("[Casts](casts.md)", "Look up which types convert to which."),
            ],
        ),
        "## A to Z\n",
        table(
            ("function", "description", "page"),
            [
                (code(each.name), cell(each.about), f"[{described[each.page]['title']}]({each.page}.md)")
                for each in sorted(named, key=lambda each: each.name)
            ],
        ),
        "## Not supported, with the replacement\n",
        "SinkQL refuses these functions of other systems. The error message shows the same replacement.\n",
        table(("instead of", "write"), [_instead(each) for each in _elsewhere()]),
        "## Not supported\n",
        table(("function", "reason"), [*_refused()]),
    ]
    return "\n".join(parts)


def _elsewhere() -> list[tuple[str, str | None, str | None]]:
    found = [(each.call, each.write, each.advice) for each in habits().function]
    return sorted(found, key=lambda each: each[0])


def _instead(each: tuple[str, str | None, str | None]) -> tuple[str, str]:
    written, write, advice = each
    return code(written), code(write) if write is not None else cell(advice or "")


def _refused() -> list[tuple[str, str]]:
    found = {name: f"{reason[0].upper()}{reason[1:]}." for name, reason in call._REASONS.items()}
    found |= dict.fromkeys(call.UNSUPPORTED_AGGREGATES, "The aggregate is not supported.")
    found |= dict.fromkeys(call._VOLATILE, "It returns another value at each call. Use a column of the source.")
    return [(code(name), escaped(reason)) for name, reason in sorted(found.items())]
