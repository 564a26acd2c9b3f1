"""The number patterns of to_char(): parse a pattern, and format a number by it.

999,990.00    digits, with blanks or zeros before them, , (or G) between them, and . (or D) before the last ones
99V99         times ten for each digit after the V
9.99EEEE      the first digits and the power of ten, without other texts
S MI PL SG PR signs; TH th the ending of an ordinal; RN rn a Roman numeral; FM removes blanks
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal

from sinkql.logical.pattern import PatternError

DIGITS = ("9", "0")
MOST_DIGITS, MOST_SHIFT = 38, 9
FLOAT_DIGITS = {"real": 6, "double precision": 15}
"""The number of significant digits of a float, unless more digits are before the point."""
ROMAN = (
    ("", "M", "MM", "MMM"),
    ("", "C", "CC", "CCC", "CD", "D", "DC", "DCC", "DCCC", "CM"),
    ("", "X", "XX", "XXX", "XL", "L", "LX", "LXX", "LXXX", "XC"),
    ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"),
)
"""The digits of thousands, hundreds, tens and ones."""
ROMAN_WIDTH = 15
ENDINGS = ("th", "st", "nd", "rd")
"""The ending of an ordinal by its last digit; from 4 on, and after a 1, the first ending."""


@dataclass(frozen=True, slots=True)
class PatternToken:
    """A word of a pattern beside its digits: MI, PL, SG, TH or th."""

    name: str


_HINT = "Its parts are 9 0 . , D G V FM S MI PL SG PR TH RN and EEEE; put other letters in quotes, as in '\"no. \"999'."
_CURRENCY = "to_char() pattern 'L' is not supported: the currency sign depends on the server's locale"
_EXAMPLE = "Write it as 'FM999990.00'."
_TOKEN = re.compile(
    r'(?P<word>EEEE|eeee|FM|fm|MI|mi|PL|pl|PR|pr|SG|sg|RN|rn|TH|th|[SsVvDdGg90.,])|"(?P<quoted>[^"\\]*)"|(?P<text>[^A-Za-z0-9"\\.,]+)'
)
_CORE = tuple(map(PatternToken, (*DIGITS, ",", ".", "V", "RN", "rn")))
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """A number pattern. `whole` are its parts before the point: 9, 0, commas and texts."""

    whole: tuple[str, ...]
    places: int
    """The number of digits after the point."""
    forced: int
    """The number of those digits that stay even if they are trailing zeros, with FM."""
    shift: int
    """The number of places that the number is shifted before it is written."""
    sign: str
    """S (before the digits), s (after them), PR, MI, PL or SG; empty for a minus before the number."""
    blanks: bool
    """Whether blanks replace missing digits and signs."""
    before: tuple[PatternToken | str, ...]
    after: tuple[PatternToken | str, ...]
    roman: str
    """RN or rn for a Roman numeral."""
    exponent: bool
    """Whether a power of ten follows the digits; the pattern then has no signs and texts."""

    @property
    def slots(self) -> str:
        """Return the digits before the point."""
        return "".join(slot for slot in self.whole if slot in DIGITS)

    @property
    def zeros(self) -> int:
        """Return the minimum number of digits before the point."""
        return len(self.slots) - self.slots.index("0") if "0" in self.slots else 0

    @property
    def blank(self) -> str:
        """Return the replacement for missing characters: a blank, or nothing with FM."""
        return " " if self.blanks else ""

    @property
    def start(self) -> tuple[str, str] | None:
        """Return the prefix of a number, and of a negative one; None if it begins with its digits."""
        if self.sign in ("s", "MI", "SG"):
            return None
        return {"S": ("+", "-"), "PR": (self.blank, "<")}.get(self.sign, (self.blank, "-"))

    @property
    def end(self) -> tuple[str, str] | None:
        """Return the suffix of a number, and of a negative one; None if it ends with its digits."""
        return {"s": ("+", "-"), "PR": (self.blank, ">")}.get(self.sign)

    @property
    def width(self) -> int:
        """Return the length of a number with its prefix, if blanks pad it."""
        return sum(map(len, self.whole)) + (self.places + 1 if self.places else 0) + (self.start is not None)

    @property
    def ordinal(self) -> bool:
        """Return whether the number has the ending of an ordinal."""
        return bool({PatternToken("TH"), PatternToken("th")} & {*self.before, *self.after})

    @property
    def no_exponent(self) -> str:
        """Return the text for a float without a power of ten."""
        return f" {'#' * len(self.slots)}.{'#' * (self.places + 4)}"

    def cut(self, behind: int, *, pointed: bool) -> bool:
        """Return whether the text ends at the end of a float's digits, with `behind` digits after the point."""
        wanted = self.places if self.blanks or not pointed else self.forced
        return behind < wanted if pointed else bool(self.places)

    def not_finite(self, name: str, precision: int) -> str:
        """Return infinity or NaN in the digits of a number with `precision` significant digits."""
        if len(name) <= len(self.slots):
            return name
        behind = max(min(self.places, precision - len(name)), 0)
        return f"{name}.{'#' * behind}" if behind else name

    def beside(self, word: PatternToken) -> tuple[str, str]:
        """Return the text of a sign beside the digits, for a positive and a negative number."""
        return {"MI": (self.blank, "-"), "PL": ("+", self.blank)}.get(word.name, ("+", "-"))


def parse_number_format(pattern: str) -> NumberFormat:
    """Return the parsed number pattern; raises PatternError for an unsupported one."""
    words = _words(pattern)
    if PatternToken("EEEE") in words:
        return _with_exponent(words)
    parts = [word for word in words if word != PatternToken("FM")]
    core = [place for place, part in enumerate(parts) if part in _CORE]
    if not core:
        raise PatternError("a number pattern of to_char() has digits, 9 or 0, or RN", hint=_EXAMPLE)
    before, middle, after = parts[: core[0]], parts[core[0] : core[-1] + 1], parts[core[-1] + 1 :]
    roman = middle[0].name if len(middle) == 1 and middle[0] in (PatternToken("RN"), PatternToken("rn")) else ""
    whole, places, forced, shift = ((), 0, 0, 0) if roman else _digits(middle)
    sign = _sign(before, after, roman=bool(roman))
    sign = "S" if sign == "s" and shift else sign  # as in Postgres
    blanks = len(parts) == len(words)
    texts = [slot for slot in whole if slot not in (*DIGITS, ",")]
    if whole[:1] != ("0",) and any(text.strip(" ") or not blanks for text in texts):
        raise PatternError("a text among the digits of a number takes 0 as the first digit", hint="Write '000-00'.")
    return NumberFormat(whole, places, forced, shift, sign, blanks, _beside_digits(before), _beside_digits(after),
                   roman, exponent=False)  # fmt: skip


def check_float(format_: NumberFormat) -> None:
    """Refuse a pattern by which only some engines format floats exactly."""
    if format_.exponent and format_.places >= FLOAT_DIGITS["double precision"]:
        most = FLOAT_DIGITS["double precision"] - 1
        raise PatternError(
            f"a number pattern of to_char() has at most {most} digits between the point and EEEE for a float",
            hint=f"Write '9.{'9' * most}EEEE'.",
        )
    if len(format_.slots) == MOST_DIGITS:
        raise PatternError(
            f"a number pattern of to_char() has at most {MOST_DIGITS - 1} digits for a float", hint=_EXAMPLE
        )


def _with_exponent(words: Sequence[PatternToken | str]) -> NumberFormat:
    """Return a pattern with a power of ten: its digits before and after the point."""
    parts = [word for word in words if isinstance(word, PatternToken)]
    slots = [part in (PatternToken("9"), PatternToken("0"), PatternToken("."), PatternToken(",")) for part in parts]
    if slots != [True] * (len(parts) - 1) + [False]:
        raise PatternError(
            "EEEE ends a number pattern of to_char(), and only digits and a point go with it", hint="Write '9.99EEEE'."
        )
    digits = [part for part in parts[:-1] if part != PatternToken(",")]
    whole, places, forced, _ = _digits(digits)
    return NumberFormat(whole, places, forced, 0, "", True, (), (), "", exponent=True)


def _beside_digits(parts: Sequence[PatternToken | str]) -> tuple[PatternToken | str, ...]:
    """Return the parts with separate places; S and PR go with the digits."""
    return tuple(part for part in parts if part not in (PatternToken("S"), PatternToken("PR")))


def _words(pattern: str) -> list[PatternToken | str]:
    """Return a pattern's words, in capitals except endings and Roman numerals, and its texts."""
    tokens: list[PatternToken | str] = []
    position = 0
    while position < len(pattern):
        match = _TOKEN.match(pattern, position)
        if match is None:
            name = re.match(r"[A-Za-z]+|.", pattern[position:], re.DOTALL)
            if name and name[0] in ("L", "l"):
                raise PatternError(_CURRENCY, hint="Write the sign in quotes, as in '\"€\"999.00'.")
            raise _refused(name[0] if name else "")
        word = match["word"]
        if word is None:
            tokens.append(match["text"] if match["quoted"] is None else match["quoted"])
        else:
            upper = {"D": ".", "G": ","}.get(word.upper(), word.upper())
            tokens.append(PatternToken(word if word in ("th", "rn") else upper))
        position = match.end()
    return tokens


def _refused(name: str) -> PatternError:
    return PatternError(f"to_char() pattern '{name}' is not supported for numbers", hint=_HINT)


def _digits(middle: Sequence[PatternToken | str]) -> tuple[tuple[str, ...], int, int, int]:
    """Return the places before the point, the number after it, the last 0 of those, and the shift."""
    names = [token.name if isinstance(token, PatternToken) else "" for token in middle]
    place = next((place for place, name in enumerate(names) if name in (".", "V")), len(names))
    behind = names[place + 1 :]
    for number, name in enumerate(names):
        misplaced = name == "," and (number in (0, len(names) - 1) or number > place or names[number - 1] == ",")
        if misplaced or (name not in ("", ",", *DIGITS) and number != place):
            raise _refused(name)
    whole = tuple(token.name if isinstance(token, PatternToken) else token for token in middle[:place])
    shifted = names[place : place + 1] == ["V"]
    count = sum(slot in DIGITS for slot in whole)
    if not count or (not behind and place < len(names)) or "" in behind or (shifted and "0" in behind):
        raise PatternError("a number pattern of to_char() has digits on both sides of . and V", hint=_EXAMPLE)
    if shifted and len(behind) > MOST_SHIFT:
        raise PatternError(f"a number pattern of to_char() has at most {MOST_SHIFT} digits behind V", hint=_EXAMPLE)
    if count + len(behind) > MOST_DIGITS:
        raise PatternError(f"a number pattern of to_char() has at most {MOST_DIGITS} digits", hint=_EXAMPLE)
    if shifted:
        return (*whole, *behind), 0, 0, len(behind)
    forced = max((number + 1 for number, name in enumerate(behind) if name == "0"), default=0)
    return whole, len(behind), forced, 0


def _sign(before: Sequence[PatternToken | str], after: Sequence[PatternToken | str], *, roman: bool) -> str:
    """Return the sign before or after the digits."""
    signs = [
        token.name for token in (*before, *after) if isinstance(token, PatternToken) and token.name not in ("TH", "th")
    ]
    endings = [token.name for token in (*before, *after) if token in (PatternToken("TH"), PatternToken("th"))]
    early = [token.name for token in before if token in (PatternToken("TH"), PatternToken("th"), PatternToken("PR"))]
    if len(signs) > 1 or len(endings) > 1 or early or (roman and (signs or endings)):
        raise PatternError(
            "a number pattern of to_char() has one of S, MI, PL, SG and PR, and PR and TH stand behind the digits",
            hint="Write it as 'S999', '999PR' or 'FM999th'.",
        )
    if PatternToken("S") in after:
        return "s"
    return signs[0] if signs else ""


# --- a number by its pattern ---------------------------------------------------------------------------------------


def format_numeric(format_: NumberFormat, value: int | Decimal) -> str:
    """Return a whole number or a numeric formatted by a pattern."""
    if format_.roman:
        return _roman(format_, int(_EXACT.quantize(Decimal(value), Decimal(1))))
    if format_.exponent:
        return _scientific(value, format_.places)
    step = Decimal(1).scaleb(-format_.places)
    moved = _EXACT.scaleb(Decimal(value), format_.shift)
    rounded = _EXACT.quantize(_EXACT.abs(moved), step)
    return _written(format_, format(rounded, "f"), negative=value < 0 and rounded != 0)


def format_float(format_: NumberFormat, value: float, precision: int) -> str:
    """Return a float with `precision` significant digits formatted by a pattern.

    Raises ValueError for an ordinal of infinity or NaN.
    """
    finite = math.isfinite(value)
    if format_.roman:
        return _roman(format_, round(value) if finite else 0)
    if format_.exponent:
        return f"{value: .{format_.places}e}" if finite else format_.no_exponent
    if finite:
        digits = len(format(abs(value), ".0f"))
        shown = format(abs(value), f".{max(min(format_.places, precision - digits), 0)}f")
    else:
        shown = format_.not_finite("NaN" if math.isnan(value) else "Infinity", precision)
    return _written(format_, shown, negative=math.copysign(1, value) < 0 and not math.isnan(value))


def _written(format_: NumberFormat, number: str, *, negative: bool) -> str:
    digits, _, fraction = number.partition(".")
    over = len(digits) > len(format_.slots)
    ending = ""
    if format_.ordinal and not negative and not format_.places and not over:
        if not digits.isdigit():
            raise ValueError(f'"{digits}" is not a number')
        ending = ENDINGS[int(digits[-1]) if digits[-1] in "123" and digits[-2:-1] != "1" else 0]
    shown = _number(format_, digits, fraction, negative=negative)
    sides = ["".join(_beside(format_, part, ending, negative=negative) for part in side)
             for side in (format_.before, format_.after)]  # fmt: skip
    return sides[0] + shown + ("" if format_.cut(len(fraction), pointed=over or bool(fraction)) else sides[1])


def _number(format_: NumberFormat, digits: str, fraction: str, *, negative: bool) -> str:
    slots, over = format_.slots, len(digits) > len(format_.slots)
    pointed = bool(fraction) or (over and bool(format_.places))
    width = format_.width - (format_.places - len(fraction)) - (bool(format_.places) and not pointed)
    if over:
        digits, fraction = "#" * len(slots), "#" * len(fraction)
    if not format_.blanks:
        fraction = fraction[: format_.forced] + fraction[format_.forced :].rstrip("0")
    if digits == "0" and format_.places and not format_.zeros and (format_.blanks or fraction):
        digits = ""
    places = iter(digits.rjust(format_.zeros, "0").rjust(len(slots)))
    shown = "".join(next(places) if slot in DIGITS else slot for slot in format_.whole)
    shown = shown.lstrip(" ,") + ("." + fraction if pointed else "")
    start, end = (("", "") if sides is None else sides for sides in (format_.start, format_.end))
    shown = start[negative] + shown
    return (shown.rjust(width) if format_.blanks else shown) + (end[negative] if pointed or not format_.places else "")


def _scientific(value: int | Decimal, places: int) -> str:
    """Return the first digits of a number, rounded, and its power of ten before rounding."""
    number = Decimal(value)
    power = number.adjusted() if number else 0
    digits = _EXACT.quantize(_EXACT.scaleb(number, -power), Decimal(1).scaleb(-places))
    return f"{digits: f}e{power:+03}"


def _beside(format_: NumberFormat, part: PatternToken | str, ending: str, *, negative: bool) -> str:
    if isinstance(part, str):
        return part
    if part.name in ("TH", "th"):
        return ending.upper() if part.name == "TH" else ending
    return format_.beside(part)[negative]


def _roman(format_: NumberFormat, value: int) -> str:
    shown = "#" * ROMAN_WIDTH
    if 1 <= value <= 3999:
        shown = "".join(ROMAN[place][int(digit)] for place, digit in enumerate(f"{value:04}"))
    shown = shown.rjust(ROMAN_WIDTH) if format_.blanks else shown
    shown = shown.lower() if format_.roman == "rn" else shown
    return "".join([*map(str, format_.before), shown, *map(str, format_.after)])
