"""Options of a stored statement, and what ALTER sets and resets of them → its options after that."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeVar

from sinkql import ast
from sinkql.connector_api.options import option_labels, unknown
from sinkql.connector_api.planning import ConnectionKind
from sinkql.errors import SinkqlError, Span
from sinkql.planner.unsupported import no_keys

T = TypeVar("T")
Refusal = Callable[[str, Span], SinkqlError]


def respan(node: T, span: Span) -> T:
    """Return a part of a statement with another span, also in all that it is made of."""
    found: object = node
    if isinstance(node, tuple):
        found = tuple(respan(each, span) for each in node)
    elif isinstance(node, Span):
        found = span
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        parts = (field.name for field in dataclasses.fields(node) if field.init)
        changed = {name: respan(getattr(node, name), span) for name in parts}
        found = dataclasses.replace(node, **changed)
    return found  # type: ignore[return-value]  # of the same type as the node


def changed_options(
    present: tuple[ast.Option, ...],
    action: ast.SetOptions | ast.ResetOptions,
    *,
    known: Sequence[str],
    owner: str,
    refused: Sequence[str] = (),
    refusal: Refusal | None = None,
) -> tuple[ast.Option, ...]:
    """Return the options after SET or RESET, each in its place; those that stay have the span of ALTER.

    `known` are the names there are, `owner` says what has them; `refusal` is the error for one of `refused`. Raises
    SQ2101 (unknown), SQ2102 (twice).
    """
    match action:
        case ast.SetOptions():
            given = {option.name: option for option in action.options}
            names = [(option.name, option.name_span) for option in action.options]
        case ast.ResetOptions():
            given = {}
            names = [(each.name, each.span) for each in action.names]
    seen = set()
    for name, span in names:
        if name not in known:
            raise unknown(ast.Option(name, None, span, span), known, owner=owner)
        if name in seen:
            raise SinkqlError("SQ2102", f"option {name} is given twice", span, hint="Keep one of them.")
        seen.add(name)
        same = name in given and any(option == given[name] for option in present)
        if name in refused and not same and refusal is not None:
            raise refusal(name, span)
    stay = {
        option.name: respan(option, action.span)
        for option in present
        if option.name in given or option.name not in seen
    }
    return tuple((stay | given).values())


def changed_connection(
    present: ast.CreateConnection, change: ast.ChangeConnection, kind: ConnectionKind
) -> ast.CreateConnection:
    """Return a connection's statement after all that ALTER CONNECTION does, one after the other.

    Raises SQ2540 for an option that decides which system is reached, and as `changed_options` does.
    """
    options = present.options
    for action in change.actions:
        if isinstance(action, ast.RotateKeys):
            if kind.keys is None:
                raise no_keys(action)
            continue
        options = changed_options(
            options, action, known=option_labels(kind.options), owner=kind.owner, refused=kind.fixed, refusal=_elsewhere
        )
    return dataclasses.replace(respan(present, change.span), options=options)


def _elsewhere(name: str, span: Span) -> SinkqlError:
    return SinkqlError(
        "SQ2540",
        f"option {name} cannot change after the connection is created",
        span,
        hint="Run CREATE CONNECTION with another name, and create the sinks again with that one.",
    )
