"""Full names: joined and taken apart, resolved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkql import ast
from sinkql.errors import SinkqlError
from sinkql.planner.name import join_name, resolve, short_name, split_name


def name(*parts: str) -> ast.Name:
    return ast.Name(tuple(ast.Ident(part) for part in parts))


@given(st.lists(st.text(min_size=1), min_size=1, max_size=3))
def test_split_name_undoes_join_name(parts: list[str]) -> None:
    assert split_name(join_name(*parts)) == tuple(parts)


@pytest.mark.parametrize(
    ("parts", "full"),
    [
        (("orders",), "materialize.public.orders"),
        (("public", "orders"), "materialize.public.orders"),
        (("materialize", "public", "orders"), "materialize.public.orders"),
        (("a.b",), 'materialize.public."a.b"'),
        (("mz_catalog", "mz_sinks"), "mz_catalog.mz_sinks"),
        (("materialize", "mz_internal", "mz_sink_statuses"), "mz_internal.mz_sink_statuses"),
    ],
)
def test_names_resolve_to_full_names(parts: tuple[str, ...], full: str) -> None:
    assert resolve(name(*parts)) == full


@pytest.mark.parametrize("parts", [("elsewhere", "orders"), ("other", "public", "orders")])
def test_an_unknown_schema_or_database_is_refused(parts: tuple[str, ...]) -> None:
    with pytest.raises(SinkqlError) as refused:
        resolve(name(*parts))
    assert refused.value.code == "SQ2004"


def test_short_names_leave_out_what_goes_without_saying() -> None:
    assert short_name("materialize.public.orders") == "orders"
    assert short_name("mz_catalog.mz_sinks") == "mz_catalog.mz_sinks"
