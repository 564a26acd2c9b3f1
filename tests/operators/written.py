"""Views as SQL over sources that a test gives rows → their operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from sinkql import ast, logical, physical
from sinkql.extension.plan import Planning, SourcePlan
from sinkql.extension.registry import Registry, discover
from sinkql.logical.type import decoded, parse_type
from sinkql.lowering.job import lower_view
from sinkql.program.compiler import compile_text

_PREFIX = "materialize.public."


@dataclass(frozen=True)
class Rows:
    """Columns by name, each a type with `not null` behind it or not; how rows change, and what is unique."""

    columns: Mapping[str, str]
    change: logical.Change = logical.Change.RETRACT
    keys: tuple[frozenset[str], ...] = ()


def view(text: str, **sources: Rows) -> physical.Operator:
    """Return what a query does over sources of these names."""
    return planned(text, **sources)[0]


def planned(text: str, **sources: Rows) -> tuple[physical.Operator, logical.Shape]:
    """Return what a query does over sources of these names, and what is known of its rows."""
    made = "".join(f"CREATE SOURCE {name} FROM LOAD GENERATOR COUNTER;" for name in sources)
    catalog = compile_text(f"{made} CREATE MATERIALIZED VIEW v AS {text};", registry=_registry(sources)).catalog
    assert catalog is not None
    item = catalog.item(f"{_PREFIX}v")
    assert isinstance(item, logical.View)
    return _named(lower_view(item, catalog)[0], sources), item.shape


def _registry(sources: Mapping[str, Rows]) -> Registry:
    found = discover()
    counter = found.sources["LOAD GENERATOR COUNTER"]

    def plan(statement: ast.CreateSource, facts: logical.Facts, planning: Planning) -> SourcePlan:
        rows = sources[statement.name.parts[-1].value]
        columns = tuple(
            logical.Column(name, parse_type(type_.removesuffix(" not null")), nullable="not null" not in type_)
            for name, type_ in rows.columns.items()
        )
        return SourcePlan({}, logical.Shape(columns, rows.keys, rows.change))

    return replace(found, sources=found.sources | {counter.name: replace(counter, plan=plan)})


def _named(operator: physical.Operator, sources: Mapping[str, Rows]) -> physical.Operator:
    """Return the operators over sources of their short names."""
    data = msgspec.json.encode(physical.to_data(operator))
    for name in sources:
        data = data.replace(f'"{_PREFIX}{name}"'.encode(), f'"{name}"'.encode())
    found: physical.Operator = msgspec.json.decode(data, type=physical.Operator, dec_hook=decoded)
    return found
