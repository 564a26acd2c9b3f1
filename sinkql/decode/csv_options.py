"""Plan FORMAT CSV with its options, and convert the planned options to typed ones for the decoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from sinkql import ast, codec
from sinkql.connector_api.options import bind, option_field, option_span
from sinkql.errors import SinkqlError


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """The options of FORMAT CSV, with the names that COPY of Postgres uses; `comment` is an addition."""

    delimited_by: str | None = option_field("the character between fields", default=None)
    quote: str = option_field("the character around fields with delimiters, quotes or line ends", default='"')
    escape: str | None = option_field(
        "the character before a quote in a quoted field; the quote by default", default=None
    )
    null_as: str = option_field("the unquoted text that means NULL", default="")
    comment: str | None = option_field("the first character of comment lines", default=None)


@dataclass(frozen=True, slots=True)
class CsvFileOptions(CsvOptions):
    """The options of FORMAT CSV for files."""

    skip_blank_lines: bool = option_field("skip empty lines instead of reading them as records", default=False)
    columns_by: Literal["NAME", "POSITION"] = option_field(
        "how to find columns if there is a header: by name or by position", default="NAME"
    )


class Form(msgspec.Struct, frozen=True):
    """How a file is written: single characters, the text of NULL, and the first character of comment lines.

    With `skip_blank_lines`, empty lines are not records.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'
    null: str = ""
    comment: str | None = None
    skip_blank_lines: bool = False


class CsvFormat(Form, frozen=True):
    """The planned options of FORMAT CSV; the plan leaves out defaults. `names` are the header fields of the columns."""

    header: bool = False
    names: tuple[str, ...] = ()
    by_position: bool = False


def csv_format(options: Mapping[str, Any]) -> CsvFormat:
    """Return the typed options of a planned format."""
    return codec.convert(options, CsvFormat)


def csv_file_form(format_: ast.Format, *, owner: str) -> dict[str, Any]:
    """Return the planned options of CSV files, as `csv_form` does; raise SQ2414 for contradictory options."""
    options = bind(format_.options, CsvFileOptions, owner=owner, span=format_.span)
    by_position = options.columns_by == "POSITION"
    span = option_span(format_.options, "COLUMNS BY", format_.span)
    if by_position and format_.names:
        raise SinkqlError(
            "SQ2414", "COLUMNS BY = POSITION contradicts the names after HEADER", span, hint="Remove one of them."
        )
    if by_position and not format_.header:
        raise SinkqlError("SQ2414", "COLUMNS BY = POSITION requires a header", span, hint="Remove it.")
    return {
        **_form(format_, options),
        **({"skip_blank_lines": True} if options.skip_blank_lines else {}),
        **({"by_position": True} if by_position else {}),
    }


def csv_form(format_: ast.Format, *, owner: str) -> dict[str, str]:
    """Return the planned options of CSV without defaults; raise SQ2412 and SQ2414 as Postgres does."""
    return _form(format_, bind(format_.options, CsvOptions, owner=owner, span=format_.span))


def _form(format_: ast.Format, options: CsvOptions) -> dict[str, str]:
    if format_.delimiter is not None and options.delimited_by is not None:
        span = option_span(format_.options, "DELIMITED BY", format_.span)
        raise SinkqlError("SQ2102", "option DELIMITED BY is given twice", span, hint="Keep one of them.")
    form = {
        "delimiter": format_.delimiter or (options.delimited_by if options.delimited_by is not None else ","),
        "quote": options.quote,
        "escape": options.escape if options.escape is not None else options.quote,
        "null": options.null_as,
    }
    if options.comment is not None:
        form["comment"] = options.comment
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
    """Raise SQ2414 for characters that cannot be told apart."""
    labels = [name for name in ("delimiter", "quote", "comment") if name in form]
    for number, name in enumerate(labels):
        for other in labels[number + 1 :]:
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
                f"NULL AS must not contain a line break or the character of {_CHARACTERS[name]}",
                option_span(format_.options, "NULL AS", format_.span),
                hint="Write NULL AS = 'NA', or another text that stands for NULL in the files.",
            )
