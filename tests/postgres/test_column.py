"""The decoder of columns returns the same values as the exact decoder, and rejects the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sinkql.connector_api.types import arrow_type
from sinkql.connectors.postgres import column as columns
from sinkql.connectors.postgres.column import ValuePlaces
from sinkql.connectors.postgres.type import ServerColumn, ServerType, sql_type
from sinkql.connectors.postgres.value import UnfitError
from sinkql.decode.columnar import Block
from sinkql.logical.type import UNKNOWN
from support.examples import examples

from .values import SCALARS, TYPES

_settings = settings(examples(50, 150), suppress_health_check=[HealthCheck.too_slow])


def _decoded(type_: ServerType, values: list[bytes | None], *, binary: bool) -> tuple[list[Any], list[bool]]:
    """Return the values that the decoder of columns returns, and which of them it rejects; these are None."""
    raw, starts, lengths = b"", [], []
    for each in values:
        raw += b"\0\1"
        starts.append(len(raw))
        lengths.append(len(each or b""))
        raw += each or b""
    valid = np.array([each is not None for each in values], bool)
    places = ValuePlaces(
        Block(raw), np.array(starts, np.int64), np.array(lengths, np.int64), None if valid.all() else valid
    )
    found, bad = columns.decode(ServerColumn("c", type_), places, binary=binary)
    assert found.type == arrow_type(sql_type(type_) or UNKNOWN)
    wrong = [False] * len(values) if bad is None else bad.tolist()
    kept = found.filter(pa.array([not each for each in wrong], pa.bool_()))
    kept.validate(full=True)
    rows = iter(kept.to_pylist())
    return [None if each else next(rows) for each in wrong], wrong


def _exact(type_: ServerType, values: list[bytes | None], *, binary: bool) -> tuple[list[Any], list[bool]]:
    found, wrong = [], []
    for each in values:
        try:
            found.append(None if each is None else columns.read(ServerColumn("c", type_), each, binary=binary))
            wrong.append(False)
        except UnfitError:
            found.append(None)
            wrong.append(True)
    return pa.array(found, arrow_type(sql_type(type_) or UNKNOWN)).to_pylist(), wrong


@_settings
@given(st.data())
def test_generated_values(data: st.DataObject) -> None:
    type_, raw = data.draw(TYPES)
    values = data.draw(st.lists(st.none() | raw, max_size=12))
    assert _decoded(type_, values, binary=True) == _exact(type_, values, binary=True)


@pytest.mark.share(3)
@pytest.mark.parametrize("place", range(len(SCALARS)))
@settings(deadline=None, max_examples=15)
@given(st.data())
def test_each_type(place: int, data: st.DataObject) -> None:
    type_, raw = SCALARS[place]
    values = data.draw(st.lists(st.none() | raw, min_size=5, max_size=30))
    assert _decoded(type_, values, binary=True) == _exact(type_, values, binary=True)
