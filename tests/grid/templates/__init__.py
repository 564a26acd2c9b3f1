"""A template for every overload, cast and constant that functions have: SQL over columns of the edge values.

`@i0` is the first column of integers, `@i1` the second one; other texts are as both SinkQL and Postgres read them. What
Postgres has not, or spells otherwise, is judged by the text beside it; None where nothing judges but the other engine.
"""

from __future__ import annotations

from grid.templates.casts import casts
from grid.templates.nested import arrays, composites, json, ranges
from grid.templates.numbers import numbers
from grid.templates.operators import conditions, operators
from grid.templates.template import Template
from grid.templates.texts import patterns, texts
from grid.templates.times import times

__all__ = ["FOUND", "Template", "templates"]

FOUND = (
    "power(@d0, @d1)",
    "power(@d0, 0.5)",
    "div(@n0, @n1)",
    "div(@i0, @i1)",
    "factorial(@l0)",
    "width_bucket(@d0, @d1, @d2, 5)",
    "width_bucket(@d0, 0, 10, @i1)",
    "right(@s0, @i1)",
    "right(@s0, -2147483648)",
    "lpad(@s0, @i1)",
    "repeat(@s0, @i1)",
    "split_part(@s0, @s1, @i2)",
    "array_to_string(ARRAY[@s0, NULL, 'c'], ',', @s1)",
    "array_to_string(@as0, @s1, @s2)",
    "@ai0[@i1:@i2]",
    "@t0 AT TIME ZONE 'America/New_York'",
    "@t0 AT TIME ZONE 'Australia/Lord_Howe'",
    "date_trunc('hour', @z0, 'America/New_York')",
    "date_trunc('day', @z0, 'Europe/Berlin')",
    "@u0 + @i1",
    "@u0 - @i1",
    "to_char(@u0, 'TZ')",
    "make_date(@i0, @i1, @i2)",
    "@s0 ~ '\\s'",
    "regexp_replace(@s0, 'b*', '<\\&>', 'g')",
    "regexp_count(@s0, 'b*')",
    "@s0 NOT LIKE ALL (ARRAY['a%', '%b', ''])",
    "sign(@d0)",
    "radians(@d0)",
    "atan2(@d0, @d1)",
    "array_remove(@ai0, 1 / @i1)",
    "array_replace(@ai0, @i1, 1 / @i2)",
    "@ai0[array_length(ARRAY[@ai2, @ai1], 2):@i0]",
    "@ai0[array_length(ARRAY[@ai2, @ai1], 2)]",
    "array_to_string(@ai0, ',', (1 / @i1)::text)",
    "string_to_array(@s0, ',', (1 / @i1)::text)",
    "@i0::real::double precision",
    "@l0::real::double precision",
)
"""What was wrong once in one of the engines: all of it is tried with each change."""


def templates() -> tuple[Template, ...]:
    """Return all, each once."""
    made = (operators, conditions, numbers, texts, patterns, times, json, arrays, ranges, composites, casts)
    return tuple(dict.fromkeys(each for make in made for each in make()))
