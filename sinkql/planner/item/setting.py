"""Plan ALTER SYSTEM SET and SET: check a setting's name and its new value."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sinkql import ast
from sinkql.errors import Notice, SinkqlError, Span, nearest
from sinkql.keywords import quoted
from sinkql.planner.name import DATABASE, SCHEMA

_MISSPELT = 0.85
_SPARK_HINT = "Set Spark's options for a cluster: CREATE CLUSTER name (SIZE = '…', CONF = MAP['…' => '…'])."
FIXED = {
    "client_encoding": ("UTF8", "utf-8", "unicode"),
    "datestyle": ("ISO, MDY", "iso"),
    "intervalstyle": ("postgres",),
    "server_encoding": ("UTF8",),
    "server_version": ("9.5.0",),
    "standard_conforming_strings": ("on", "true"),
    "timezone": ("UTC", "etc/utc", "gmt", "zulu"),
    "transaction_isolation": ("strict serializable", "serializable"),
}
"""Settings that clients of Postgres set and SinkQL fixes: the value, then its accepted spellings."""

DEFAULTS = {
    "application_name": "",
    "cluster": "quickstart",
    "database": DATABASE,
    "enable_default_connection_validation": "true",
    "enable_iceberg_sink": "true",
    "search_path": SCHEMA,
    **{name: values[0] for name, values in FIXED.items()},
}
"""All settings with their defaults; a default of true or false makes a setting boolean."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings that a statement changes: `values` by name, empty for an unknown setting."""

    values: tuple[tuple[str, str], ...]
    notices: tuple[Notice, ...] = ()


def plan_setting(statement: ast.AlterSystem | ast.SetVariable) -> Setting:
    """Return the settings that ALTER SYSTEM, SET or RESET changes; RESET ALL changes all settings.

    Scripts of Materialize set many settings that SinkQL does not have; these give a notice. Raises SQ2630 for a
    probable misspelling, SQ2631 and SQ2636 for an invalid value.
    """
    if statement.name is None or (statement.name.value == "all" and statement.value is None):
        return Setting(tuple(DEFAULTS.items()))
    name, span = statement.name.value, statement.name.span
    if name in DEFAULTS:
        return Setting((_plan_value(name, statement),))
    if nearest(name, tuple(DEFAULTS), cutoff=_MISSPELT):
        raise unknown_setting(name, span)
    hint = _SPARK_HINT if name.startswith("spark.") else "Leave it out; SHOW ALL lists the settings."
    return Setting((), (Notice("SQ2637", f'setting "{name}" does not exist, skipped', span, hint=hint),))


def _plan_value(name: str, statement: ast.AlterSystem | ast.SetVariable) -> tuple[str, str]:
    if statement.value is None:
        return name, DEFAULTS[name]
    value = _list(statement.value) if name == "search_path" else _text(statement.value)
    if name in FIXED:
        return name, _fixed(name, value, statement.value)
    boolean = DEFAULTS[name] in ("true", "false")
    if boolean:
        value = {"on": "true", "off": "false"}.get((value or "").lower(), (value or "").lower())
    if not value or (boolean and value not in ("true", "false")):
        wanted = "true or false" if boolean else "a name"
        head = "ALTER SYSTEM SET" if isinstance(statement, ast.AlterSystem) else "SET"
        example = DEFAULTS[name] if boolean else f"'{DEFAULTS[name]}'"
        raise SinkqlError(
            "SQ2631",
            f'setting "{name}" takes {wanted}',
            statement.value.span,
            hint=f"Write {head} {name} = {example};",
        )
    return name, value


def _fixed(name: str, value: str | None, written: ast.Value) -> str:
    """Return the fixed value of a setting; raise SQ2636 for any other value."""
    fixed, *others = FIXED[name]
    if value is None or value.lower() not in (fixed.lower(), *others):
        hint = "Leave it out; convert times in the query, with AT TIME ZONE." if name == "timezone" else "Leave it out."
        raise SinkqlError("SQ2636", f'setting "{name}" can only be {fixed}', written.span, hint=hint)
    return fixed


def unknown_setting(name: str, span: Span | None) -> SinkqlError:
    """Return the error for a setting that does not exist."""
    near = nearest(name, tuple(DEFAULTS), cutoff=0.7)
    settable = (default for default in DEFAULTS if default not in FIXED)
    hint = f"Did you mean {near}?" if near else f"The settings are {', '.join(settable)}."
    return SinkqlError("SQ2630", f'setting "{name}" does not exist', span, hint=hint)


def _list(value: ast.Value) -> str | None:
    """Return names as one text, which `path_parts` splits again."""
    items = [_text(item) for item in (value.items if isinstance(value, ast.Sequence) else (value,))]
    texts = [text for text in items if text is not None]
    plain = re.compile(r'[^",\s]+')
    return (
        ", ".join(text if plain.fullmatch(text) else quoted(text) for text in texts)
        if len(texts) == len(items)
        else None
    )


def _text(value: ast.Value) -> str | None:
    match value:
        case ast.Text():
            return value.value
        case ast.Word():
            return value.name.value
        case ast.Boolean():
            return str(value.value).lower()
        case _:
            return None
