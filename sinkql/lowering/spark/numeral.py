"""to_char() of numbers → Spark SQL that makes the text out of the number's digits."""

from __future__ import annotations

from sinkql.logical import Call, Type
from sinkql.logical.numeral import DIGITS, ENDINGS, ROMAN, ROMAN_WIDTH, Numeral, Word, read_numeral
from sinkql.lowering.spark.string import constant_text
from sinkql.lowering.spark.text import Form, Spelling, text_literal

# the names of what the text is made of: the number, rounded and without its sign, and its digits before the point
_ROUNDED, _DIGITS, _PLACED = "`$n`", "`$d`", "`$p`"


def _to_char(call: Call) -> Form:
    numeral = read_numeral(constant_text(call.arguments[1]))
    type_ = call.arguments[0].type
    text = _roman(numeral, type_) if numeral.roman else _written(numeral, type_)
    return Form(text, operands=call.arguments[:1])


def _rounded(type_: Type, places: int) -> tuple[str, int]:
    """Return a number without its sign as text, and how many of the digits behind its point it has."""
    precision, scale = type_.precision or 38, type_.scale or 0
    kept, value = min(places, scale), "@0"
    if type_.name == "numeric":
        most = min(precision - scale + (kept < scale) + kept, 38)
        value = f"CAST(@0 AS DECIMAL({max(most, 1)},{kept}))"
    return f"trim(LEADING '-' FROM CAST({value} AS STRING))", kept


def _written(numeral: Numeral, type_: Type) -> str:
    rounded, kept = _rounded(type_, numeral.places or numeral.shift)
    if type_.name != "numeric" and numeral.shift:  # moved as it is, which fails for a number that is too large
        factor = 10**numeral.shift if type_.name == "integer" else f"{10**numeral.shift}L"
        rounded, kept = rounded.replace("@0", f"@0 * {factor}"), numeral.shift
    digits, fraction = _ROUNDED, "0" * (numeral.places - kept)
    fraction = text_literal(fraction)
    if numeral.shift:
        digits = f"concat(replace({_ROUNDED}, '.', ''), '{'0' * (numeral.shift - kept)}')"
        digits = f"regexp_replace({digits}, '^0+(?=[0-9])', '')"
    elif kept:
        digits = f"substring_index({_ROUNDED}, '.', 1)"
        fraction = f"concat(substring_index({_ROUNDED}, '.', -1), {fraction})"
    return _named(rounded, _ROUNDED, _named(digits, _DIGITS, _text(numeral, fraction)))


def _named(value: str, name: str, of: str) -> str:
    return f"transform(array({value}), {name} -> {of})[0]"


def _text(numeral: Numeral, fraction: str) -> str:
    """Return a number's text, out of its digits and those behind its point."""
    negative = f"@0 < 0 AND {_ROUNDED} RLIKE '[1-9]'"
    over = f"length({_DIGITS}) > {len(numeral.slots)}"
    if not numeral.blanks:
        fraction = f"regexp_replace({fraction}, '^(.{{{numeral.kept}}}.*?)0*$', '$1')"
    shown = f"trim(LEADING ' ,' FROM {_whole(numeral, fraction, over)})"
    if numeral.places:
        shown = f"concat({shown}, '.', IF({over}, '{'#' * numeral.places}', {fraction}))"
    if numeral.start is not None and any(numeral.start):
        shown = f"concat({_either(negative, numeral.start)}, {shown})"
    if numeral.blanks:
        shown = f"lpad({shown}, {numeral.width}, ' ')"
    around = [shown] if numeral.end is None else [shown, _either(negative, numeral.end)]
    before, after = (
        [_beside(numeral, each, negative, over) for each in side] for side in (numeral.before, numeral.after)
    )
    pieces = [*before, *around, *after]
    return pieces[0] if len(pieces) == 1 else f"concat({', '.join(pieces)})"


def _either(negative: str, words: tuple[str, str]) -> str:
    return f"IF({negative}, {text_literal(words[1])}, {text_literal(words[0])})"


def _whole(numeral: Numeral, fraction: str, over: str) -> str:
    """Return what stands before the point, with blanks and commas in place of digits that are not there."""
    slots, digits = numeral.slots, _DIGITS
    if numeral.zeros:
        digits = f"IF(length({_DIGITS}) < {numeral.zeros}, lpad({_DIGITS}, {numeral.zeros}, '0'), {_DIGITS})"
    elif numeral.places:
        left_out = f"{_DIGITS} = '0'" if numeral.blanks else f"{_DIGITS} = '0' AND {fraction} <> ''"
        digits = f"IF({left_out}, '', {_DIGITS})"
    placed = f"IF({over}, '{'#' * len(slots)}', lpad({digits}, {len(slots)}, ' '))"
    pieces, start, count = [], 1, 0
    for each in (*numeral.whole, ""):
        if each in DIGITS:
            count += 1
            continue
        if count:
            pieces.append(f"substring({_PLACED}, {start}, {count})")
        start, count = start + count, 0
        if each:
            pieces.append(text_literal(each))
    return placed if len(pieces) == 1 else _named(placed, _PLACED, f"concat({', '.join(pieces)})")


def _beside(numeral: Numeral, part: Word | str, negative: str, over: str) -> str:
    if isinstance(part, str):
        return text_literal(part)
    if part.name not in ("TH", "th"):
        return _either(negative, numeral.beside(part))
    if numeral.places:
        return "''"
    endings = [each.upper() if part.name == "TH" else each for each in ENDINGS]
    known = " ".join(f"WHEN {_DIGITS} RLIKE '(^|[^1]){digit}$' THEN '{endings[digit]}'" for digit in (1, 2, 3))
    return f"CASE WHEN {negative} OR {over} THEN '' {known} ELSE '{endings[0]}' END"


def _roman(numeral: Numeral, type_: Type) -> str:
    rounded, _ = _rounded(type_, 0)
    digits = [
        f"element_at(array({', '.join(map(text_literal, row))}), CAST(substring({_DIGITS}, {place}, 1) AS INT) + 1)"
        for place, row in enumerate(ROMAN, start=1)
    ]
    shown = f"concat({', '.join(digits)})"
    shown = f"lower({shown})" if numeral.roman == "rn" else shown
    shown = f"lpad({shown}, {ROMAN_WIDTH}, ' ')" if numeral.blanks else shown
    wrong = f"@0 <= 0 OR length({_ROUNDED}) > 4 OR {_ROUNDED} >= '4' AND length({_ROUNDED}) = 4 OR {_ROUNDED} = '0'"
    text = _named(f"lpad({_ROUNDED}, 4, '0')", _DIGITS, shown)
    text = f"IF({wrong}, '{'#' * ROMAN_WIDTH}', {text})"
    sides = [[text_literal(each) for each in side if isinstance(each, str)] for side in (numeral.before, numeral.after)]
    pieces = [*sides[0], text, *sides[1]]
    return _named(rounded, _ROUNDED, pieces[0] if len(pieces) == 1 else f"concat({', '.join(pieces)})")


FORMS: dict[str, Spelling] = {f"to_char({type_},text)": _to_char for type_ in ("integer", "bigint", "numeric")}
"""By id; the pattern is a constant."""
