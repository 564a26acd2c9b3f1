"""What a function of ordered rows is: the order, the frame, and the call."""

from __future__ import annotations

from typing import Literal

import msgspec


class Order(msgspec.Struct, frozen=True):
    """One term of an order: a column of the input."""

    column: str
    descending: bool = False
    nulls_first: bool = False


class FrameBound(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a frame begins or ends: a number of rows, groups or of the order's units before (< 0) or after the row.

    None is the partition's end; 0 the row itself or, unless the frame is of rows, its peers.
    """

    offset: int | str | None = None


class Frame(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rows of its partition that a window function takes for a row."""

    unit: Literal["rows", "range", "groups"] = "range"
    start: FrameBound = FrameBound(None)
    end: FrameBound = FrameBound(0)
    exclude: Literal["no others", "current row", "group", "ties"] = "no others"


class WindowCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """One window function, or an aggregate over the rows of a key in an order, over columns of the input.

    `type` is that of its result, `version` that of the function's meaning. `constants` are arguments that are the same
    for all rows, as canonical texts.
    """

    name: str
    function: str
    columns: tuple[str, ...]
    type: str
    order: tuple[Order, ...] = ()
    frame: Frame | None = None
    distinct: bool = False
    constants: tuple[str, ...] = ()
    nullable: bool = True
    version: int = 1
