"""Define calls of window functions: the order, the frame, and the call."""

from __future__ import annotations

from typing import Literal

import msgspec

from sinkql.logical.type import Type


class Order(msgspec.Struct, frozen=True):
    """One term of an order: a column of the input."""

    column: str
    descending: bool = False
    nulls_first: bool = False


class FrameBound(msgspec.Struct, frozen=True, omit_defaults=True):
    """The start or end of a frame: an offset in rows, groups or units of the order, before (< 0) or after the row.

    None is the partition's end. 0 is the row itself or, unless the unit is rows, its peers.
    """

    offset: int | str | None = None


class Frame(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rows of a partition that a window function reads for a row."""

    unit: Literal["rows", "range", "groups"] = "range"
    start: FrameBound = FrameBound(None)
    end: FrameBound = FrameBound(0)
    exclude: Literal["no others", "current row", "group", "ties"] = "no others"


class WindowCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """One window function, or an aggregate over a key's rows in an order, over columns of the input.

    `type` is the type of the result, `version` the meaning version of the function. `constants` are arguments with the
    same value for all rows, as canonical text.
    """

    name: str
    function: str
    columns: tuple[str, ...]
    type: Type
    order: tuple[Order, ...] = ()
    frame: Frame | None = None
    distinct: bool = False
    constants: tuple[str, ...] = ()
    nullable: bool = True
    version: int = 1
