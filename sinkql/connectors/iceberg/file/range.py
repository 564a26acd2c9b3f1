"""Texts of ranges → structs as tables have them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sinkql.logical.range import EMPTY

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
