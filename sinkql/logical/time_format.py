"""The patterns of to_char(), to_date() and to_timestamp(): parse them, and read times by them.

A part is in capitals or in small letters, which matters only for parts that are written as letters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sinkql.logical import time
from sinkql.logical.number_format import ENDINGS
from sinkql.logical.pattern import PatternError

WIDTHS: Mapping[str, int] = {
    "YYYY": 4, "YYY": 3, "YY": 2, "Y": 1, "IYYY": 4, "IYY": 3, "IY": 2, "I": 1, "CC": 2, "Q": 1, "MM": 2, "IW": 2,
    "IDDD": 3, "WW": 2, "W": 1, "DDD": 3, "DD": 2, "D": 1, "ID": 1, "J": 1, "HH24": 2, "HH12": 2, "HH": 2, "MI": 2,
    "SS": 2, "MS": 3, "US": 6, "SSSSS": 1, "SSSS": 1, "FF1": 1, "FF2": 2, "FF3": 3, "FF4": 4, "FF5": 5, "FF6": 6,
}  # fmt: skip
"""The numeric parts, with their minimum number of digits without FM."""
NAMES: Mapping[str, int] = {"MONTH": 9, "MON": 3, "DAY": 9, "DY": 3}
"""The parts that are names, with their length without FM."""
_FRACTIONS = ("MS", "US", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6")
_HALVES = ("AM", "PM", "A.M.", "P.M.")
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
"""The months as the part RM writes them."""
ROMAN_WIDTH = 4
_NAMED = [*NAMES, *_HALVES]
_SPELLED = [
    *(word for part in (*WIDTHS, *_NAMED) for word in (part, part.lower())), *(part.capitalize() for part in NAMES),
]  # fmt: skip
_THOUSANDS = "Y,"
_COMMA = "(?i:Y,YYY)"
"""The thousands of a year, a comma and the rest: different from a Y, a comma and YYY."""
_AHEAD = {"OF": "+00", "TZH": "+00", "TZM": "00"}
"""The offset of the zone, which is UTC."""
_ZONE = "UTC"
_QUOTES = "Put letters that stand for no part of a time in quotes, as in 'YYYY-MM-DD\"T\"HH24:MI:SS'."
_PART = "|".join(map(re.escape, sorted(_SPELLED, key=len, reverse=True)))
_KNOWN = rf"(?!(?:FM)?{_COMMA})(?P<fill>FM|fm)?(?P<part>{_PART})"
_QUOTED = r'"(?P<quoted>[^"\\]*)"'
_TOKEN = re.compile(
    rf"(?:(?:FM|fm)?(?P<comma>{_COMMA})|(?P<ahead>{'|'.join(_AHEAD)}|of|tzh|tzm)|(?:FM|fm)?(?P<zone>TZ|tz)"
    rf'|(?P<romanfill>FM|fm)?(?P<roman>RM|rm)|{_KNOWN})(?P<ending>TH|th)?|{_QUOTED}|(?P<plain>[^A-Za-z"\\]+)'
)
_READ_TOKEN = re.compile(rf'{_KNOWN}|{_QUOTED}|(?P<plain>[^A-Za-z0-9"\\]+)')
"""A digit of a pattern is written unchanged; when reading, it would match any character."""


@dataclass(frozen=True, slots=True)
class TimePart:
    """A part of a time: the name of a number in capitals, or a name, RM or AM/PM in its case."""

    name: str
    blanks: bool = True
    """Whether no FM precedes the part."""
    ending: str = ""
    """TH or th for a number with the ending of an ordinal."""

    @property
    def filled(self) -> bool:
        """Return whether zeros or blanks pad the part: a fraction always has all its digits."""
        return self.blanks or self.name in _FRACTIONS

    @property
    def number(self) -> bool:
        """Return whether the part is a number."""
        return self.name in WIDTHS or self.name == _THOUSANDS

    @property
    def width(self) -> int:
        """Return the minimum number of digits."""
        return WIDTHS.get(self.name, 1) if self.filled else 1

    def cased(self, text: str) -> str:
        """Return a name in the case of the part."""
        return text.upper() if self.name.isupper() else text.lower() if self.name.islower() else text


def read_to_char(pattern: str, *, zoned: bool) -> list[TimePart | str]:
    """Return a pattern's parts, and the texts between them; raises PatternError for a part without an exact form.

    Only a timestamptz, which is `zoned`, has a zone with a name.
    """
    return _parts(pattern, _TOKEN, "to_char() pattern '{}' is not supported", _QUOTES, zone=_ZONE if zoned else "")


def ordinal(text: str, ending: str) -> str:
    """Return a number with the ending for its last digits."""
    last = int(text[-1]) if text[-1] in "123" and text[-2:-1] != "1" else 0
    return text + (ENDINGS[last].upper() if ending == "TH" else ENDINGS[last])


def _parts(pattern: str, token: re.Pattern[str], message: str, hint: str, *, zone: str = "") -> list[TimePart | str]:
    parts: list[TimePart | str] = []
    position = 0
    while position < len(pattern):
        match = token.match(pattern, position)
        if match is None:
            word = re.match(rf"(?:FM)?{_COMMA}|[A-Za-z0-9]+", pattern[position:])
            raise PatternError(message.format(word[0] if word else pattern[position]), hint)
        position = match.end()
        groups = match.groupdict()
        ending = groups.get("ending") or ""
        if groups.get("comma"):
            parts += [TimePart(_THOUSANDS), ",", TimePart("YYY", ending=ending)]
        elif groups.get("ahead"):
            parts.append(_AHEAD[match["ahead"].upper()])
        elif groups.get("zone"):
            parts.append(zone if match["zone"].isupper() else zone.lower())
        elif groups.get("roman"):
            parts.append(TimePart(match["roman"], not match["romanfill"]))
        elif match["part"]:
            number = match["part"].upper() in WIDTHS
            name = match["part"].upper() if number else match["part"]
            parts.append(TimePart(name, not match["fill"], ending if number else ""))
        else:
            parts.append(match["plain"] if match["quoted"] is None else match["quoted"])
    return parts


# --- reading -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimeForm:
    """The form of a text that contains a time: an expression that matches all of it, and its groups by their parts:
    YYYY or YY, MM, MON or MONTH, DD or DDD, HH24 or HH12, half (AM or PM), MI, SS, and MS or US."""

    expression: str
    groups: Mapping[str, int]

    @property
    def canonical(self) -> str | None:
        """Return the text `year-month-day hours:minutes:seconds` with $n for the n-th group; None if a part needs a
        computation."""
        if self.groups.keys() & {"YY", "MON", "DDD", "HH12"}:
            return None
        places = {part: f"${number}" for part, number in self.groups.items()}
        day = "-".join(places.get(part, "01") for part in ("YYYY", "MM", "DD"))
        clock = ":".join(places.get(part, "00") for part in ("HH24", "MI", "SS"))
        fraction = places.get("MS") or places.get("US")
        return f"{day} {clock}{'.' + fraction if fraction else ''}"


# digits of each part: before another character, and before another number
_DIGITS = {
    "YYYY": ("(?!0000)[0-9]{4}", "(?!0000)[0-9]{4}"), "YY": ("[0-9]{2}", "[0-9]{2}"), "MM": ("[0-9]{1,2}", "[0-9]{2}"),
    "DD": ("[0-9]{1,2}", "[0-9]{2}"), "DDD": ("(?!0{1,3}(?![0-9]))[0-9]{1,3}", "(?!000)[0-9]{3}"),
    "HH24": ("[01]?[0-9]|2[0-3]", "[01][0-9]|2[0-3]"), "HH12": ("0?[1-9]|1[0-2]", "0[1-9]|1[0-2]"),
    "MI": ("[0-5]?[0-9]", "[0-5][0-9]"), "SS": ("[0-5]?[0-9]", "[0-5][0-9]"), "MS": ("[0-9]{3}", "[0-9]{3}"),
    "US": ("[0-9]{6}", "[0-9]{6}"),
}  # fmt: skip
_READ_HINT = "The parts are YYYY, YY, MM, Mon, Month, DD, DDD, HH24, HH12, AM, MI, SS, MS and US."
_EXCLUSIVE = (("YYYY", "YY"), ("MM", "MON", "DDD"), ("DD", "DDD"), ("HH24", "HH12"), ("MS", "US"), ("HH24", "half"))


def read_time_form(pattern: str) -> TimeForm:
    """Return the form for a pattern of to_date() and to_timestamp(); raises PatternError."""
    message = "pattern '{}' is not supported for reading a time"
    parts = _parts(pattern, _READ_TOKEN, message, _READ_HINT)
    groups: dict[str, int] = {}
    expression = ""
    for number, part in enumerate(parts):
        following = parts[number + 1] if number + 1 < len(parts) else ""
        if isinstance(part, str):
            expression += re.escape(part)
            continue
        name, read = _read(part, number=isinstance(following, TimePart) and following.number)
        if not read or not part.blanks:
            raise PatternError(message.format(("" if part.blanks else "FM") + part.name), _READ_HINT)
        if name in groups:
            raise PatternError(f"pattern {part.name} is used twice")
        groups[name] = len(groups) + 1
        expression += f"({read})"
    for several in _EXCLUSIVE:
        if len(groups.keys() & set(several)) > 1:
            shown = " and ".join(field if field != "half" else "AM" for field in several if field in groups)
            hint = "AM goes with HH12." if "half" in several else "Use one of them."
            raise PatternError(f"{shown} exclude each other when reading a time", hint=hint)
    if not groups.keys() & {"YYYY", "YY"} or ("half" in groups and "HH12" not in groups):
        raise PatternError(
            "reading a time requires a year, and AM requires HH12", hint="Write it as 'YYYY-MM-DD HH12:MI AM'."
        )
    return TimeForm(expression, groups)


def _read(part: TimePart, *, number: bool) -> tuple[str, str]:
    """Return the name of a part's value, and the expression that matches it: empty if it cannot be read."""
    name = {"HH": "HH12", "MONTH": "MON"}.get(part.name.upper(), part.name.upper())
    if part.name.upper() == "MON":
        return name, f"(?i:{time.MONTHS.replace(' ', '|')})"
    if part.name.upper() == "MONTH":
        return name, f"(?i:{time.LONG_MONTHS})"
    if name in _HALVES:
        return "half", r"(?i:[ap]\.m\.)" if "." in name else "(?i:[ap]m)"
    return name, _DIGITS.get(name, ("", ""))[number]


def read_by(form: TimeForm, text: str) -> str | None:
    """Return a text of this form as `year-month-day hours:minutes:seconds`; None if it has another form."""
    match = re.fullmatch(form.expression, text, re.ASCII)
    if match is None:
        return None
    fields = {part: match[number] for part, number in form.groups.items()}
    year = fields.get("YYYY") or ("20" if fields["YY"] < "70" else "19") + fields["YY"]
    month, day = fields.get("MM", "1"), fields.get("DD", "1")
    if "MON" in fields:
        month = str(time.month(fields["MON"]))
    if "DDD" in fields:
        month, day = time.day_of_year(int(year), int(fields["DDD"]))
    hour = fields.get("HH24", "0")
    if "HH12" in fields:
        hour = str(int(fields["HH12"]) % 12 + 12 * (fields.get("half", "a")[0] in "pP"))
    fraction = fields.get("MS") or fields.get("US")
    clock = ":".join((hour, fields.get("MI", "0"), fields.get("SS", "0")))
    return f"{year}-{month}-{day} {clock}{'.' + fraction if fraction else ''}"
