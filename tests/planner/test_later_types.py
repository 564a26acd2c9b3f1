"""Types of the dialect that columns cannot have yet give one error, which names a type to use instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.session import Session

_TYPES = (
    "interval day to second", "int4multirange", "tstzmultirange",
    "map[int=>int]", "map", "int[][] list[]", "int[] list[][]",
    "record", "record(a int, a text)", "regclass",
    "timetz", "time(3) with time zone", "time with time zone", "time(3)",
    "timestamp(3)", "timestamp (3) with time zone", "timestamptz(0)",
)  # fmt: skip
_FORMS = (
    "CREATE TABLE t (a {});",
    "CREATE SOURCE s (a {}) FROM FILES (PATH = 'in') FORMAT JSON;",
)


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("type_", _TYPES)
def test_a_type_of_the_dialect_is_not_supported_yet_and_what_its_hint_names_is(
    form: str, type_: str, tmp_path: Path
) -> None:
    with Session(tmp_path / "catalog.db") as session:
        with pytest.raises(SinkqlError, match="not support yet") as refused:
            session.execute(form.format(type_))
        assert refused.value.code == "SQ2935"
        assert refused.value.hint is not None
        instead = re.match(
            r"Use (record\(a integer, b text\)|map\[text => integer\]|jsonb|integer|bigint|timestamptz|timestamp|time|"
            r"interval|uint4|uint8|text|two columns)",
            refused.value.hint,
        )
        assert instead is not None
        session.execute(form.format("integer" if instead[1] == "two columns" else instead[1]))


def test_a_type_that_nobody_has_is_not_called_one_of_the_dialect(tmp_path: Path) -> None:
    with Session(tmp_path / "catalog.db") as session, pytest.raises(SinkqlError) as refused:
        session.execute("CREATE TABLE t (a nonsense);")
    assert refused.value.code == "SQ2429"
