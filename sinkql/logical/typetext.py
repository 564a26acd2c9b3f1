"""Texts of types that are made of others: `map[text=>integer]`, `record(a integer, "b c" text NOT NULL)` → their parts.

The parts are texts, as canonical or as free as the whole; blanks around them are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sinkql.keywords import QUOTED, quoted

Part = tuple[str, str, bool]
"""A field: its name, its type's text, and whether it is NOT NULL."""

_MAP = re.compile(r"map\s*\[(.*)\]", re.IGNORECASE | re.DOTALL)
_TEXT = ("text", "string", "varchar", "character varying")
_RECORD = re.compile(r"record\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
_FIELD = re.compile(r'(?:"((?:[^"]|"")+)"|([^\W\d][\w$]*))\s+(.+?)(\s+(?:not\s+)?null)?', re.IGNORECASE | re.DOTALL)
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def map_value(text: str) -> str | None:
    """Return the text of the type of a map's values; None for what is no map from text."""
    inside = _inside(_MAP, text)
    key, arrow, value = (inside or "").partition("=>")
    return value.strip() if arrow and key.strip().lower() in _TEXT and value.strip() else None


def record_fields(text: str) -> list[Part] | None:
    """Return the fields of a record; None for what is none."""
    inside = _inside(_RECORD, text)
    if inside is None:
        return None
    found = [_FIELD.fullmatch(each.strip()) for each in _listed(inside)]
    fields = [
        (match[1].replace('""', '"') if match[1] else match[2].lower(), match[3], _not_null(match[4]))
        for match in found
        if match is not None
    ]
    return fields if len(fields) == len(found) == len({name for name, _, _ in fields}) else None


def _not_null(text: str | None) -> bool:
    return text is not None and text.split()[0].lower() == "not"


def written_field(name: str, type_: str, *, not_null: bool) -> str:
    """Return the canonical text of a field."""
    return f"{shown_name(name)} {type_}{' NOT NULL' if not_null else ''}"


def shown_name(name: str) -> str:
    """Return a name as SQL has it: in quotes where it needs them."""
    return name if _PLAIN.fullmatch(name) and name.upper() not in QUOTED else quoted(name)


def flat(text: str) -> str:
    """Return a type's text in lower case with single blanks, but for names in quotes."""
    plain = _QUOTED.split(text.strip())
    names = [*_QUOTED.findall(text.strip()), ""]
    return "".join(re.sub(r"\s+", " ", before.lower()) + name for before, name in zip(plain, names, strict=True))


def _inside(form: re.Pattern[str], text: str) -> str | None:
    """Return what stands in the brackets; None unless they go around all of it."""
    match = form.fullmatch(text)
    if match is None:
        return None
    depth = 0
    for sign in _signs(match[1]):
        depth += (sign[0] in "([") - (sign[0] in ")]")
        if depth < 0:
            return None
    return match[1] if depth == 0 else None


def _listed(text: str) -> Iterator[str]:
    """Yield what stands between the commas that are in no brackets."""
    depth, part = 0, ""
    for sign in _signs(text):
        depth += (sign[0] in "([") - (sign[0] in ")]")
        if sign == "," and depth == 0:
            yield part
            part = ""
        else:
            part += sign
    yield part


def _signs(text: str) -> Iterator[str]:
    """Yield characters; a name in quotes is one."""
    return (match[0] for match in re.finditer(r'"(?:[^"]|"")*"|.', text, re.DOTALL))
