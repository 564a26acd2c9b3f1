"""FORMAT CSV (options) → how records are written, as the decoder takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sinkql import ast
from sinkql.connector_api.options import bind, option_field, option_span
from sinkql.errors import SinkqlError


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """The options of FORMAT CSV; their words are those of Postgres's COPY, but for comments."""

    delimited_by: str | None = option_field("the character between fields", default=None)
    quote: str = option_field("the character around fields with delimiters, quotes or line ends", default='"')
    escape: str | None = option_field(
        "the character before a quote in a quoted field; the quote by default", default=None
    )
    null_as: str = option_field("the unquoted text that means NULL", default="")
    comment: str | None = option_field("the first character of comment lines", default=None)


@dataclass(frozen=True, slots=True)
class CsvFileOptions(CsvOptions):
    """The options of FORMAT CSV that only files have."""

    skip_blank_lines: bool = option_field("skip empty lines instead of reading them as records", default=False)
    columns_by: Literal["NAME", "POSITION"] = option_field(
        "how to find columns if there is a header: by name or by position", default="NAME"
    )


def csv_file_form(format_: ast.Format, *, owner: str) -> dict[str, Any]:
    """Return how CSV files are written, as `csv_form` does; raises SQ2414 for what is said of no header."""
    given = bind(format_.options, CsvFileOptions, owner=owner, span=format_.span)
    by_position = given.columns_by == "POSITION"
    span = option_span(format_.options, "COLUMNS BY", format_.span)
    if by_position and format_.names:
        raise SinkqlError(
            "SQ2414", "COLUMNS BY = POSITION contradicts the names after HEADER", span, hint="Leave out one of them."
        )
    if by_position and not format_.header:
        raise SinkqlError("SQ2414", "COLUMNS BY = POSITION is for files that have a header", span, hint="Leave it out.")
    return {
        **_form(format_, given),
        **({"skip_blank_lines": True} if given.skip_blank_lines else {}),
        **({"by_position": True} if by_position else {}),
    }


def csv_form(format_: ast.Format, *, owner: str) -> dict[str, str]:
    """Return how CSV is written, less what is as always; raises SQ2412 and SQ2414 as Postgres refuses it."""
    return _form(format_, bind(format_.options, CsvOptions, owner=owner, span=format_.span))


def _form(format_: ast.Format, given: CsvOptions) -> dict[str, str]:
    if format_.delimiter is not None and given.delimited_by is not None:
        span = option_span(format_.options, "DELIMITED BY", format_.span)
        raise SinkqlError("SQ2102", "option DELIMITED BY is given twice", span, hint="Keep one of them.")
    form = {
        "delimiter": format_.delimiter or (given.delimited_by if given.delimited_by is not None else ","),
        "quote": given.quote,
        "escape": given.escape if given.escape is not None else given.quote,
        "null": given.null_as,
    }
    if given.comment is not None:
        form["comment"] = given.comment
    for name, label in _CHARACTERS.items():
        character = form.get(name, " ")
        if len(character) != 1 or not character.isascii() or character in "\r\n\0":
            raise SinkqlError(
                "SQ2412",
                f"{label} must be a single ASCII character other than a line break",
                option_span(format_.options, label, format_.span),
                hint=f"Write {label}{_EXAMPLES[name]}.",
            )
    _check_distinct(format_, form)
    usual = {"quote": '"', "escape": '"', "null": ""}
    return {name: text for name, text in form.items() if usual.get(name) != text}


_CHARACTERS = {"delimiter": "DELIMITED BY", "quote": "QUOTE", "escape": "ESCAPE", "comment": "COMMENT"}
_EXAMPLES = {"delimiter": " ';'", "quote": """ = '"'""", "escape": " = '\\'", "comment": " = '#'"}


def _check_distinct(format_: ast.Format, form: dict[str, str]) -> None:
    """Raise SQ2414 for characters of which one would be read as another."""
    labels = [name for name in ("delimiter", "quote", "comment") if name in form]
    for place, name in enumerate(labels):
        for other in labels[place + 1 :]:
            if form[name] == form[other]:
                raise SinkqlError(
                    "SQ2414",
                    f"{_CHARACTERS[name]} and {_CHARACTERS[other]} must be different characters",
                    option_span(format_.options, _CHARACTERS[other], format_.span),
                    hint=f"Choose another character for {_CHARACTERS[other]}.",
                )
    for name in ("delimiter", "quote"):
        if form[name] in form["null"] or "\n" in form["null"] or "\r" in form["null"]:
            raise SinkqlError(
                "SQ2414",
                f"NULL AS must not contain a line break, nor the character of {_CHARACTERS[name]}",
                option_span(format_.options, "NULL AS", format_.span),
                hint="Write NULL AS = 'NA', or what else stands for NULL in the files.",
            )
