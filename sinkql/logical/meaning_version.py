"""The offset of a call's meaning version for some constants.

A new version of a function would change the plans of all sinks that use it. If its values change only for some
constants, the other calls keep their version, and their sinks continue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sinkql.logical.expression import Expression, Literal, Reference
from sinkql.logical.pattern import matches_empty, read_regex

FEW_DAYS = 100_000
"""A date moved by fewer days needs no check of the range of dates."""


def meaning_offset(function: str, arguments: Sequence[Expression]) -> int:
    """Return the number of versions that a call's meaning is after its function's version."""
    constants = [argument.value if isinstance(argument, Literal) else None for argument in arguments]
    if function in _OF_DATES:
        return constants[0] in _ERAS and not isinstance(arguments[1], Reference)
    test = _LATER.get(function)
    return (test is not None and test(constants)) + (function in _OF_PATTERNS and _of_letters(constants))


_ERAS = ("year", "isoyear", "century", "millennium")
"""Fields of a date without a 0: they differ for years before Christ, which no column contains."""
_OF_DATES = frozenset(
    f"{name}(text,{type_})" for name in ("EXTRACT", "date_part") for type_ in ("date", "timestamp", "timestamptz")
)


def _added_up(constants: Sequence[Any]) -> bool:
    """Return whether a field is a float that is the sum of two."""
    return bool(constants[0] == "epoch")


def _beyond_all_dates(constants: Sequence[Any]) -> bool:
    days = constants[1]
    return not isinstance(days, int) or abs(days) > FEW_DAYS


def _without_opposite(constants: Sequence[Any]) -> bool:
    """Return whether a length may be the smallest integer."""
    count = constants[1]
    return not isinstance(count, int) or count < -(2**31) + 2


def _null_or_broken(constants: Sequence[Any]) -> bool:
    """Return whether an exponent may be NULL, zero or a fraction."""
    exponent = constants[1]
    return not isinstance(exponent, float) or not exponent or not exponent.is_integer()


def _twice_an_hour(constants: Sequence[Any]) -> bool:
    """Return whether a time zone may have local times that occur twice."""
    return bool(constants[-1] != "UTC")


def _white_space(constants: Sequence[Any]) -> bool:
    """Return whether a pattern has a class for white space, which is larger than in ASCII."""
    return isinstance(constants[1], str) and "\\s" in constants[1].lower()


def _empty_matches(constants: Sequence[Any]) -> bool:
    """Return whether a pattern may match between the halves of a surrogate pair."""
    pattern = constants[1]
    return _white_space(constants) or (isinstance(pattern, str) and matches_empty(read_regex(pattern).java))


def _computed_replacement(constants: Sequence[Any]) -> bool:
    """Return whether the replacement of NULL may itself be NULL."""
    return constants[2] is None


def _of_letters(constants: Sequence[Any]) -> bool:
    """Return whether a pattern has a class of letters, or ignores case: the set of letters has changed once."""
    pattern, flags = constants[1], constants[3] if len(constants) > 3 else ""
    return isinstance(pattern, str) and ("\\w" in pattern.lower() or "i" in str(flags))


_OF_PATTERNS = (
    "~(text,text)", "~*(text,text)", "regexp_split_to_array(text,text)", "substring(text,text)",
    "REGEXP_MATCH(text,text,integer)", "regexp_count(text,text)", "regexp_replace(text,text,text)",
    "regexp_replace(text,text,text,text)",
)  # fmt: skip
_LATER: Mapping[str, Callable[[Sequence[Any]], bool]] = MappingProxyType(
    {
        "date_part(text,interval)": _added_up,
        "+(date,integer)": _beyond_all_dates,
        "-(date,integer)": _beyond_all_dates,
        "right(text,integer)": _without_opposite,
        "power(double precision,double precision)": _null_or_broken,
        "date_trunc(text,timestamptz,text)": _twice_an_hour,
        "AT TIME ZONE(timestamp,text)": _twice_an_hour,
        "array_to_string(any,text,text)": _computed_replacement,
        "~(text,text)": _white_space,
        "~*(text,text)": _white_space,
        "regexp_split_to_array(text,text)": _white_space,
        "substring(text,text)": _white_space,
        "REGEXP_MATCH(text,text,integer)": _white_space,
        "regexp_count(text,text)": _empty_matches,
        "regexp_replace(text,text,text)": _white_space,
        "regexp_replace(text,text,text,text)": _empty_matches,
    }
)
