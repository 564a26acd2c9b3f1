"""Maps, which are arrays of keys and values by key, and records → Spark SQL."""

from __future__ import annotations

from sinkql.logical import Call, Literal
from sinkql.logical.nested import taken
from sinkql.lowering.spark.sql import Form, Spelling, quoted, raised, text_literal

_KEY_IS = "`$k` -> `$k`.key = @1"


def _record(call: Call) -> Form:
    fields = (f"{text_literal(each.name)}, @{place}" for place, each in enumerate(call.type.fields))
    return Form(f"named_struct({', '.join(fields)})")


def _map(call: Call) -> Form:
    """Order entries by key; of those with one key the last one stays."""
    made = []
    for at in range(0, len(call.arguments), 2):
        key = f"@{at}"
        if call.arguments[at].nullable:
            key = f"coalesce({key}, {raised('a key of a map is NULL', 'STRING')})"
        made.append(f"named_struct('key', {key}, 'at', {at}, 'value', @{at + 1})")
    last = "NOT exists(`$m`, `$o` -> `$o`.key = `$e`.key AND `$o`.at > `$e`.at)"
    ordered = f"array_sort(filter(`$m`, `$e` -> {last}))"
    found = f"transform({ordered}, `$e` -> named_struct('key', `$e`.key, 'value', `$e`.value))"
    return Form(f"transform(array(array({', '.join(made)})), `$m` -> {found})[0]")


def _field(call: Call) -> Form:
    value = taken(call)
    if value is not None:
        return Form("@0", operands=(value,))
    name = call.arguments[1]
    assert isinstance(name, Literal)
    return Form(f"@0.{quoted(str(name.value))}")


FORMS: dict[str, Spelling] = {
    "ROW(any…)": _record,
    "MAP(any…)": _map,
    ".(any,text)": _field,
    "->(any,text)": Form(f"try_element_at(filter(@0, {_KEY_IS}), 1).value"),
    "?(any,text)": Form(f"IF(@1 IS NULL, NULL, exists(@0, {_KEY_IS}))"),
}
"""By id."""
