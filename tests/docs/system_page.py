"""Generate the page of the system catalog from its relations and the texts about them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from docs.links import link
from docs.markdown_parts import bullets, cell, code, escaped, front_matter, paragraph, table
from sinkql.catalog.system import RELATIONS
from sinkql.catalog.system.relation import Relation

_DESCRIBED = ("mz_internal", "mz_catalog")
_HEAD = """# System catalog

Look up the relations that describe items, statuses and progress.

```sql
SELECT o.name, p.behind, p.unit, p.lag
FROM mz_internal.mz_sink_progress AS p
JOIN mz_objects AS o ON o.id = p.id;
```

Relations of `mz_catalog` and `pg_catalog` need no schema in queries. A query cannot read the system catalog and another
relation together. Columns that are always NULL exist for tools of Materialize or Postgres.
"""


def pages() -> dict[str, str]:
    """Return the page by its path under docs/."""
    return {"reference/system-catalog.md": "\n".join(_parts(texts()))}


def texts() -> Mapping[str, Any]:
    """Return the texts in about.toml."""
    return tomllib.loads((files("sinkql.catalog.system") / "about.toml").read_text("utf-8"))


def missing() -> list[str]:
    """Return the relations and columns without a text, and the texts without a relation or column."""
    about = texts()
    found = []
    used = set()
    for relation in _relations(*_DESCRIBED):
        full = f"{relation.schema}.{relation.name}"
        described = about["relations"].get(full, {})
        found += [] if "about" in described else [full]
        for column in relation.columns:
            if column.name in described:
                continue
            if column.name in about["common"]:
                used.add(column.name)
            else:
                found.append(f"{full}.{column.name}")
        found += [f"{full}.{name}: no column" for name in described if name not in {"about", *relation.names}]
    names = {f"{each.schema}.{each.name}" for each in _relations(*_DESCRIBED)}
    found += [f"{name}: no relation" for name in about["relations"] if name not in names]
    found += [f"{name}: no column" for name in about["common"].keys() - used]
    others = {each.name for each in RELATIONS.values() if each.schema not in _DESCRIBED}
    return found + sorted(others ^ about["postgres"].keys())


def _parts(about: Mapping[str, Any]) -> Iterator[str]:
    yield front_matter("mz_catalog", "mz_internal", "pg_catalog", "metadata", "lag", "status", "progress", "monitoring")
    yield _HEAD
    for schema in _DESCRIBED:
        yield f"## {schema}\n"
        yield f"{about['schemas'][schema]}\n"
        relations = _relations(schema)
        yield table(
            ("relation", "rows"),
            [
                (f"[`{each.name}`](#{each.name})", escaped(about["relations"][f"{schema}.{each.name}"]["about"]))
                for each in relations
            ],
        )
        for each in relations:
            yield from _relation(each, about)
    for schema in ("pg_catalog", "information_schema"):
        yield f"## {schema}\n"
        yield f"{about['schemas'][schema]}\n"
        rows = [
            (code(each.name), escaped(about["postgres"][each.name]), ", ".join(code(name) for name in each.names))
            for each in _relations(schema)
        ]
        for name, text, columns in rows:
            yield paragraph(f"{name}: {text} Columns: {columns}.")
    yield "## See also\n"
    see = ("how-to/monitor.md", "sql/select.md", "sql/show.md", "how-to/slow.md")
    yield bullets(link(path, "reference") for path in see)


def _relation(relation: Relation, about: Mapping[str, Any]) -> Iterator[str]:
    described = about["relations"][f"{relation.schema}.{relation.name}"]
    yield f"### {relation.name}\n"
    yield paragraph(escaped(described["about"]))
    rows = [
        (code(each.name), code(each.type), cell(described.get(each.name, about["common"].get(each.name, ""))))
        for each in relation.columns
    ]
    yield table(("column", "type", "meaning"), rows)


def _relations(*schemas: str) -> list[Relation]:
    return sorted((each for each in RELATIONS.values() if each.schema in schemas), key=lambda each: each.name)
