"""Texts of ranges → structs as tables have them, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sinkql.logical.range import EMPTY, write_range

_PARTS = r'^(?P<opened>[\[(])"?(?P<lower>[^",]*)"?,"?(?P<upper>[^",]*)"?(?P<closed>[\])])$'


def range_type(wanted: pa.StructType) -> pa.StructType:
    """Return the type of structs that `ranges` makes."""
    return pa.struct([(field.name, field.type) for field in wanted])


def ranges(texts: pa.Array, wanted: pa.StructType) -> pa.StructArray:
    """Return ranges as structs of their bounds; an infinite bound is NULL, and so are both of an empty range."""
    parts = pc.extract_regex(texts, _PARTS)
    bounds = {name: _bound(parts, name, wanted.field(name).type) for name in ("lower", "upper")}
    flags = {
        "lower_inclusive": pc.fill_null(pc.equal(pc.struct_field(parts, "opened"), "["), False),
        "upper_inclusive": pc.fill_null(pc.equal(pc.struct_field(parts, "closed"), "]"), False),
        "empty": pc.equal(texts, EMPTY),
    }
    arrays = {**bounds, **flags}
    fields = list(range_type(wanted))
    return pa.StructArray.from_arrays([arrays[each.name] for each in fields], fields=fields, mask=texts.is_null())


def _bound(parts: pa.StructArray, name: str, type_: pa.DataType) -> pa.Array:
    text = pc.struct_field(parts, name)
    return pc.cast(pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text), type_)


def range_text(value: Mapping[str, Any]) -> str:
    """Return the text of a range that a table has."""
    if value["empty"]:
        return EMPTY
    flags = {"lower_in": bool(value["lower_inclusive"]), "upper_in": bool(value["upper_inclusive"])}
    return write_range(value["lower"], value["upper"], **flags)
