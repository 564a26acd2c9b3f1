"""What random queries have found, as small as it gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from views.random_case import Outcome, case, outcome

_VALUES = "(VALUES (1, 'a'), (2, NULL), (NULL, 'ab'))"
_FOUND = {
    "no column of a union is used": """
        SELECT 1 AS c
        FROM ((SELECT DISTINCT 1 AS c0 FROM b) UNION ALL (SELECT g FROM b)) r""",
    "an aggregate stands in HAVING alone, beside a subquery": """
        SELECT g, sum(x)::bigint AS s
        FROM b
        GROUP BY g
        HAVING max(x) FILTER (WHERE g > 0) >= (SELECT max(x) - 3 FROM u) OR count(*) > 2""",
    "the same VALUES with other names": f"""
        SELECT v.t
        FROM {_VALUES} v (x, t)
        JOIN (SELECT u.t FROM u JOIN {_VALUES} w (y, s) ON u.x = w.y) r ON r.t = v.t""",
    "IN has VALUES beside it, as one column and as two": """
        SELECT g, x
        FROM b
        WHERE g NOT IN (VALUES (1), (2)) OR (g, x) IN (VALUES (1, 1), (2, NULL)) AND x IN (VALUES (1))""",
    "values are collected in the order of a constant": """
        SELECT g, string_agg('a', ',' ORDER BY 'a', NULL DESC) AS s, array_agg(1 ORDER BY NULL) AS l
        FROM b
        GROUP BY g""",
}


@pytest.mark.parametrize("name", _FOUND)
def test_query(name: str) -> None:
    assert outcome(replace(case(1), sql=_FOUND[name])) == Outcome("held")
