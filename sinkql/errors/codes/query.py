"""Error codes of queries and expressions."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.MEANING)

CODES = {
    "SQ2201": _code(
        "The query is not complete, or has a word or sign in the wrong place.",
        "Correct the query as the hint says.",
    ),
    "SQ2202": _code(
        "The query reads a relation that does not exist, or qualifies a column with a relation that is not in FROM.",
        "Create the relation first, correct its name, or add it to FROM.",
    ),
    "SQ2203": _code(
        "FROM names an item that has no rows, such as a connection, or a sink inside a view.",
        "Select from a source, table, view or materialized view.",
    ),
    "SQ2204": _code(
        "No relation of the query, and no table of the statement, has a column of this name.",
        "Correct the name. Write a string in single quotes: double quotes are for names.",
    ),
    "SQ2205": _code(
        "More than one column that the name can refer to has this name.",
        "Qualify the column with its relation, or rename one of the columns in a subquery.",
    ),
    "SQ2206": _code(
        "The query groups its rows, and selects a column that is neither in GROUP BY nor inside an aggregate.",
        "Add the column to GROUP BY, or aggregate it, for instance with max().",
    ),
    "SQ2209": _code(
        "The query, or an expression in it, is nested too deeply to be planned.",
        "Move parts of it into views.",
    ),
    "SQ2210": _code(
        "SinkQL has no function of this name.",
        "Use the function that the hint names. Functions are those of Postgres.",
    ),
    "SQ2211": _code(
        "A function, operator or predicate does not take arguments of these types, or not this many.",
        "Cast the arguments, as in value::integer, or use one of the forms that the hint lists.",
    ),
    "SQ2212": _code(
        "A constant is not a valid value of its type.",
        "Write the constant as the hint shows it.",
    ),
    "SQ2213": _code(
        "The values of CASE, COALESCE, IN, VALUES or UNION have types that do not go together.",
        "Cast them to one type.",
    ),
    "SQ2214": _code(
        (
            "The expression is valid in Postgres, but Spark cannot compute it with exactly the same result, so "
            "SinkQL refuses it."
        ),
        "Use the form in the hint, or compute the value before it reaches SinkQL.",
    ),
    "SQ2215": _code(
        "SinkQL does not have this form of expression.",
        "Write it with the functions and operators of Postgres.",
    ),
    "SQ2216": _code(
        (
            "An aggregate or a window function is used where there are no groups or no windows: in WHERE, in GROUP BY "
            "or inside another aggregate; window functions are not allowed in HAVING either."
        ),
        "Use HAVING for conditions on groups, or compute the value in a subquery in FROM.",
    ),
    "SQ2217": _code(
        (
            "The function gives another result each time it is called, so the rows of a view would depend on "
            "when they are computed."
        ),
        "Let the source carry the time or the value as a column.",
    ),
    "SQ2218": _code(
        "Postgres has no cast between these types.",
        "Cast through a type that both convert to, such as text.",
    ),
    "SQ2219": _code(
        "WHERE, ON, HAVING, FILTER, WHEN, AND, OR or NOT has a value that is not a boolean.",
        "Compare the value, as in value <> 0.",
    ),
    "SQ2220": _code(
        "The rows come and go, and a sum of floating-point numbers cannot take a row back exactly.",
        "Cast the argument to numeric, as in sum(value::numeric(38,10)).",
    ),
    "SQ2221": _code(
        "The parts of UNION, or a list of column names, have different numbers of columns.",
        "Give all of them the same number of columns.",
    ),
    "SQ2222": _code(
        "GROUP BY, ORDER BY or DISTINCT ON has a constant that is no position of the select list.",
        "Use a number from 1 to the number of columns, or write the expression.",
    ),
    "SQ2223": _code(
        "The type does not exist, is not supported, or has modifiers outside their range.",
        "Use one of the types that the hint names, such as numeric(38, 10).",
    ),
    "SQ2224": _code(
        "The query selects columns but has no FROM.",
        "Write FROM and a relation.",
    ),
    "SQ2225": _code(
        "LIMIT, OFFSET or FETCH has something other than a whole number.",
        "Write a number, as in LIMIT 10.",
    ),
    "SQ2226": _code(
        (
            "ORDER BY of a query with DISTINCT or UNION has an expression that is not a column of the result, or does "
            "not begin with the expressions of DISTINCT ON."
        ),
        "Order by columns of the result, or put the query into a subquery in FROM.",
    ),
    "SQ2227": _code(
        "Two relations of FROM go by the same name, so that a column could not say of which it is.",
        "Give one of them an alias, as in FROM employees AS e JOIN employees AS boss ON ….",
    ),
    "SQ2228": _code(
        "NATURAL JOIN is on the columns that both relations have, and these have none in common.",
        "Write the condition after ON, or CROSS JOIN for all pairs of rows.",
    ),
    "SQ2238": _code(
        "A subquery in an expression has more or fewer columns than it is used for: one where it is a value, as many "
        "as values stand before IN.",
        "Select as many columns in the subquery.",
    ),
    "SQ2229": _code(
        "A join has no equality between its relations: each row of one may meet each row of the other. All rows of one "
        "are kept in every task, and each change of the other reads all of them.",
        "Join on an equality if there is one. Nothing is to be done where one of the relations is small.",
    ),
    "SQ2239": _code(
        (
            "A window function has no PARTITION BY, an aggregate that needs all rows of a group no GROUP BY, or OFFSET "
            "no LIMIT. All rows are kept in one task, and each commit that changes one of them reads all."
        ),
        "Add PARTITION BY, GROUP BY or LIMIT. Nothing is to be done where the rows are few.",
    ),
    "SQ2241": _code(
        "A view's query has ORDER BY without LIMIT. The rows of a view have no order, so it does nothing.",
        "Leave ORDER BY out, or add LIMIT. A query that runs at once, such as SELECT * FROM v ORDER BY id, has it.",
    ),
    "SQ2242": _code(
        "The frame of a window is not one that a window can have, or its offset is not a constant that fits.",
        "Write the earlier bound first, as in ROWS BETWEEN 2 PRECEDING AND CURRENT ROW.",
    ),
    "SQ2243": _code(
        "OVER names a window that WINDOW does not define, or changes what it takes from that window.",
        "Define it behind FROM and WHERE, as in WINDOW w AS (PARTITION BY k), and add only what it leaves open.",
    ),
    "SQ2247": _code(
        (
            "REPLICATE names a relation that is not a side of a join of the view: it is not read there, or only "
            "together with others."
        ),
        "Name relations as they stand behind FROM and JOIN, without their aliases.",
    ),
    "SQ2248": _code(
        (
            "REPLICATE names the side of an outer join whose rows show without a match too, or the relation that a "
            "subquery filters. Each task has a part of the other side, and cannot tell whether there is a match."
        ),
        "Name the other side, or leave the relation out of REPLICATE.",
    ),
    "SQ2284": _code(
        "A query over the system catalog has a form, or an expression, that is not supported there.",
        "Use joins, subqueries, GROUP BY, ORDER BY, and the expressions that views may have.",
    ),
}
