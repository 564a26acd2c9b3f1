"""Functions of text and bytes → Spark SQL."""

from __future__ import annotations

from sinkql.errors import SinkqlError, Span
from sinkql.planner.expressions_cast import cast
from sinkql.planner.expressions_typed import Typed, form, text_literal
from sinkql.planner.functions_overload import Handler, Overload, arity, constant_text, typed
from sinkql.planner.types import BOOLEAN, BYTEA, INTEGER, TEXT, UNKNOWN

_INITCAP = (
    r"array_join(transform(regexp_extract_all(@0, r'[\p{L}\p{N}]+|[^\p{L}\p{N}]+', 0), "
    "w -> concat(upper(left(w, 1)), lower(substring(w, 2)))), '')"
)
_CHR = (
    "CASE WHEN @0 IS NULL THEN NULL WHEN @0 BETWEEN 1 AND 1114111 THEN decode(unhex(lpad(hex(@0), 8, '0')), 'UTF-32') "
    "ELSE CAST(raise_error('character number') AS STRING) END"
)
_NO_NUL = "IF(contains(@0, X'00'), CAST(raise_error('invalid byte sequence') AS STRING), decode(@0, 'UTF-8'))"


def _text(template: str, *parameters: object, result: object = TEXT) -> Overload:
    return Overload((TEXT, *parameters), result, template)  # type: ignore[arg-type]  # the table gives types only


OVERLOADS: dict[str, tuple[Overload, ...]] = {
    "lower": (_text("lower(@0)"),),
    "upper": (_text("upper(@0)"),),
    "initcap": (_text(_INITCAP),),
    "length": (_text("length(@0)", result=INTEGER), Overload((BYTEA,), INTEGER, "length(@0)")),
    "char_length": (_text("length(@0)", result=INTEGER),),
    "character_length": (_text("length(@0)", result=INTEGER),),
    "octet_length": (_text("octet_length(@0)", result=INTEGER), Overload((BYTEA,), INTEGER, "octet_length(@0)")),
    "bit_length": (_text("bit_length(@0)", result=INTEGER),),
    "btrim": (_text("trim(@0)"), _text("trim(BOTH @1 FROM @0)", TEXT)),
    "ltrim": (_text("ltrim(@0)"), _text("ltrim(@1, @0)", TEXT)),
    "rtrim": (_text("rtrim(@0)"), _text("rtrim(@1, @0)", TEXT)),
    "lpad": (_text("lpad(@0, @1, ' ')", INTEGER), _text("lpad(@0, @1, @2)", INTEGER, TEXT)),
    "rpad": (_text("rpad(@0, @1, ' ')", INTEGER), _text("rpad(@0, @1, @2)", INTEGER, TEXT)),
    "replace": (_text("replace(@0, @1, @2)", TEXT, TEXT),),
    "translate": (_text("translate(@0, @1, @2)", TEXT, TEXT),),
    "split_part": (_text("split_part(@0, @1, @2)", TEXT, INTEGER),),
    "strpos": (_text("locate(@1, @0)", TEXT, result=INTEGER),),
    "starts_with": (_text("startswith(@0, @1)", TEXT, result=BOOLEAN),),
    "reverse": (_text("reverse(@0)"),),
    "repeat": (_text("repeat(@0, @1)", INTEGER),),
    "ascii": (_text("ascii(@0)", result=INTEGER),),
    "chr": (Overload((INTEGER,), TEXT, _CHR),),
    "md5": (_text("md5(@0)"), Overload((BYTEA,), TEXT, "md5(@0)")),
    "sha224": (Overload((BYTEA,), BYTEA, "unhex(sha2(@0, 224))"),),
    "sha256": (Overload((BYTEA,), BYTEA, "unhex(sha2(@0, 256))"),),
    "sha384": (Overload((BYTEA,), BYTEA, "unhex(sha2(@0, 384))"),),
    "sha512": (Overload((BYTEA,), BYTEA, "unhex(sha2(@0, 512))"),),
    "overlay": (_text("overlay(@0 PLACING @1 FROM @2 FOR @3)", TEXT, INTEGER, INTEGER),),
}


def _substr(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 3)
    text = typed(name, arguments[0], TEXT)
    start, *length = (typed(name, value, INTEGER) for value in arguments[1:])
    first = start.constant
    if not length:
        if isinstance(first, int):
            return form(f"substring(@0, {max(first, 1)})", (text,), TEXT)
        return form("substring(@0, IF(@1 < 1, 1, @1))", (text, start), TEXT)
    count = length[0].constant
    if isinstance(first, int) and isinstance(count, int) and count >= 0:
        # a start below 1 eats of the length
        return form(f"substring(@0, {max(first, 1)}, {max(count + min(first, 1) - 1, 0)})", (text,), TEXT)
    template = (
        "CASE WHEN @0 IS NOT NULL AND @1 IS NOT NULL AND @2 < 0 "
        "THEN CAST(raise_error('negative substring length') AS STRING) ELSE substring(@0, IF(@1 < 1, 1, @1), "
        "IF(@1 < 1, CAST(greatest(CAST(@1 AS BIGINT) + @2 - 1, 0) AS INT), @2)) END"
    )
    return form(template, (text, start, length[0]), TEXT)


def _left(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    text, count = typed(name, arguments[0], TEXT), typed(name, arguments[1], INTEGER)
    if isinstance(count.constant, int):
        number = count.constant
        template = f"left(@0, {number})" if number >= 0 else f"substring(@0, 1, greatest(length(@0) - {-number}, 0))"
        return form(template, (text,), TEXT)
    return form("IF(@1 < 0, substring(@0, 1, greatest(length(@0) + @1, 0)), left(@0, @1))", (text, count), TEXT)


def _right(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    text, count = typed(name, arguments[0], TEXT), typed(name, arguments[1], INTEGER)
    if isinstance(count.constant, int):
        number = count.constant
        return form(f"right(@0, {number})" if number >= 0 else f"substring(@0, {1 - number})", (text,), TEXT)
    return form("IF(@1 < 0, substring(@0, 1 - @1), right(@0, @1))", (text, count), TEXT)


def as_shown(value: Typed) -> Typed:
    """Return the text that concat() and format() write for a value: a boolean is t or f."""
    if value.type == BOOLEAN:
        return form("CASE WHEN @0 THEN 't' WHEN NOT @0 THEN 'f' END", (value,), TEXT)
    return cast(value, TEXT, value.span)


def _concat(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 99)
    return Typed(f"concat({', '.join(_or_empty(value) for value in arguments)})", TEXT, False, span)


def _or_empty(value: Typed) -> str:
    shown = as_shown(value)
    return f"coalesce({shown.sql}, '')" if value.nullable else shown.sql


def _concat_ws(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 99)
    separator = typed(name, arguments[0], TEXT)
    values = ", ".join(as_shown(value).sql for value in arguments[1:])
    return Typed(f"concat_ws({separator.sql}, {values})", TEXT, separator.nullable, span)


def _format(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 99)
    pattern = constant_text(name, arguments[0], "pattern")
    pieces = pattern.replace("%%", "\0").split("%s")
    if any("%" in piece for piece in pieces) or len(pieces) != len(arguments):
        raise SinkqlError("SQ2214", "format() takes only %s and %%, one %s an argument", arguments[0].span)
    parts = []
    for index, piece in enumerate(pieces):
        if piece:
            parts.append(text_literal(piece.replace("\0", "%")))
        if index < len(pieces) - 1:
            parts.append(_or_empty(arguments[index + 1]))
    shown = ", ".join(parts) or "''"
    return Typed(f"concat({shown})", TEXT, False, span)


def _encode(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    value, kind = typed(name, arguments[0], BYTEA), constant_text(name, arguments[1], "format").lower()
    template = {"hex": "lower(hex(@0))", "base64": r"replace(base64(@0), '\r\n', '\n')"}.get(kind)
    if template is None:
        raise SinkqlError("SQ2214", f"encode() to {kind} has no exact form", arguments[1].span, hint="Use 'hex'.")
    return form(template, (value,), TEXT)


def _decode(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    value, kind = typed(name, arguments[0], TEXT), constant_text(name, arguments[1], "format").lower()
    if kind == "hex":
        template = (
            "CASE WHEN @0 IS NULL OR @0 RLIKE '^([0-9a-fA-F]{2})*$' THEN unhex(@0) "
            "ELSE CAST(raise_error('invalid hexadecimal data') AS BINARY) END"
        )
        return form(template, (value,), BYTEA)
    if kind == "base64" and value.constant is not None:
        return form("unbase64(@0)", (value,), BYTEA)
    raise SinkqlError("SQ2214", f"decode() from {kind} has no exact form here", span, hint="Use 'hex'.")


def _convert(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    encoding = constant_text(name, arguments[1], "encoding").upper().replace("-", "")
    if encoding != "UTF8":
        raise SinkqlError("SQ2214", f"{name}() takes only the encoding UTF8", arguments[1].span)
    if name == "convert_to":
        return form("encode(@0, 'UTF-8')", (typed(name, arguments[0], TEXT),), BYTEA)
    return form(_NO_NUL, (typed(name, arguments[0], BYTEA),), TEXT)


def trim(kind: str, text: Typed, characters: Typed | None, span: Span) -> Typed:
    """Plan TRIM([BOTH | LEADING | TRAILING] [characters] FROM text)."""
    if text.type not in (TEXT, UNKNOWN):
        raise SinkqlError("SQ2211", f"trim() takes text, found {text.type.name}", text.span)
    values = [typed("trim", value, TEXT) for value in (text, characters) if value is not None]
    template = f"trim({kind} @1 FROM @0)" if characters is not None else f"trim({kind} FROM @0)"
    return form(template, values, TEXT).at(span)


HANDLERS: dict[str, Handler] = {
    "substr": _substr, "substring": _substr, "left": _left, "right": _right, "concat": _concat,
    "concat_ws": _concat_ws, "format": _format, "encode": _encode, "decode": _decode, "convert_to": _convert,
    "convert_from": _convert,
}  # fmt: skip
