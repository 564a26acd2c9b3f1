"""A template for every overload, cast and constant that functions have: SQL over columns of the edge values.

`@i0` is the first column of integers, `@i1` the second one; the rest is SQL for both SinkQL and Postgres. If Postgres
needs different SQL, it stands beside the template. If it is None, only the engines are compared with each other.
"""

from __future__ import annotations

import re

from grid.templates.casts import casts
from grid.templates.nested import arrays, composites, json, ranges
from grid.templates.numbers import numbers
from grid.templates.operators import conditions, operators
from grid.templates.template import Template
from grid.templates.texts import patterns, texts
from grid.templates.times import times

__all__ = ["FOUND", "Template", "failing", "templates"]

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
    "@f0 % @m1",
    "@f0 % 0.07",
    "1 + @l0 + @l1 + 2",
    "0 * @l0 * coalesce(@l0, @l1)",
    "atan2(@d0, @d1)",
    "array_remove(@ai0, 1 / @i1)",
    "array_replace(@ai0, @i1, 1 / @i2)",
    "@ai0[array_length(ARRAY[@ai2, @ai1], 2):@i0]",
    "@ai0[array_length(ARRAY[@ai2, @ai1], 2)]",
    "array_to_string(@ai0, ',', (1 / @i1)::text)",
    "string_to_array(@s0, ',', (1 / @i1)::text)",
    "@i0::real::double precision",
    "@l0::real::double precision",
    "(ARRAY[1, 2 / @i0])[0]",
    "(@i0, 1 / @i1, @i2) < (@i1, 1 / @i2, @i0)",
    "@p0 OR (@ri0, 1 / @i1) < (@ri1, 2) OR @p1",
    "1 / @i0 > 0 AND false AND 1 / @i1 > 0",
    "@f0 < round(@m1, 2)",
    "@f0 BETWEEN @n1 AND @f2",
    "@s0 LIKE (@s1 || '\\' || @s2)",
    "make_interval(months => @i0, secs => @d1)",
    "make_interval(@i0, @i1, 1, 2, @i2, 3, @d1)",
    "to_char(@t0 - INTERVAL '2100 years', 'YYYY FMYYYY YYY YY Y Y,YYY')",
)
"""Templates on which an engine was once wrong; each change tests all of them."""


def failing() -> tuple[Template, ...]:
    """Return the templates again, each with one column that fails on some rows, beside NULL and beside values.

    Two kinds are left out: rows within rows, for which Postgres computes every field, and quotients that keep their
    digits through coalesce(…), which need a column or a constant there.
    """
    plain = [each for each in templates() if each.oracle is not None and not _LEFT_OUT.search(each.text)]
    return tuple(each.failing(place) for each in plain for place in dict.fromkeys(each.places))


_LEFT_OUT = re.compile(r", \(@[^()]*, |coalesce\(@m0 /")


def templates() -> tuple[Template, ...]:
    """Return all templates, each once."""
    made = (operators, conditions, numbers, texts, patterns, times, json, arrays, ranges, composites, casts)
    return tuple(dict.fromkeys(each for make in made for each in make()))
