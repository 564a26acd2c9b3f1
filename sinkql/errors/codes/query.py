"""Error codes of queries and expressions."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.MEANING)

CODES = {
    "SQ2201": _code(
        "The query is incomplete, or a word or sign is in the wrong place.",
        "Correct the query as the hint shows.",
    ),
    "SQ2202": _code(
        "The query reads a relation that does not exist, or qualifies a column with a relation that is not in FROM.",
        "Create the relation first, correct its name, or add it to FROM.",
    ),
    "SQ2203": _code(
        "FROM names an item without rows, for example a connection, or a view reads a sink.",
        "Select from a source, table, view or materialized view.",
    ),
    "SQ2204": _code(
        "No relation of the query has a column of this name.",
        "Correct the name. Write strings in single quotes: double quotes are for names.",
    ),
    "SQ2205": _code(
        "Several columns have this name, and the query does not say which one it means.",
        "Qualify the column with its relation, or rename one of the columns in a subquery.",
    ),
    "SQ2206": _code(
        "The query groups its rows and selects a column that is neither in GROUP BY nor inside an aggregate.",
        "Add the column to GROUP BY, or aggregate it, for example with max().",
    ),
    "SQ2209": _code(
        "The query, or an expression in it, is nested too deeply.",
        "Move parts of it into views.",
    ),
    "SQ2210": _code(
        "SinkQL has no function of this name.",
        "Use the function that the hint names. SinkQL has the functions of Postgres.",
    ),
    "SQ2211": _code(
        "A function, operator or predicate does not accept arguments of these types, or this number of arguments.",
        "Cast the arguments, as in value::integer, or use one of the forms that the hint lists.",
    ),
    "SQ2212": _code(
        "A constant is not a valid value of its type.",
        "Write the constant as the hint shows.",
    ),
    "SQ2213": _code(
        "The values of CASE, COALESCE, IN, VALUES or UNION have incompatible types.",
        "Cast them to one type.",
    ),
    "SQ2214": _code(
        "Postgres can compute the expression, but SinkQL cannot compute it with exactly the same result.",
        "Use the form in the hint, or compute the value before it reaches SinkQL.",
    ),
    "SQ2215": _code(
        "SinkQL does not have this form of expression.",
        "Write it with the functions and operators of Postgres.",
    ),
    "SQ2216": _code(
        (
            "An aggregate or a window function is not allowed here: in WHERE, in GROUP BY or inside another "
            "aggregate. HAVING allows no window functions."
        ),
        "Use HAVING for conditions on groups, or compute the value in a subquery in FROM.",
    ),
    "SQ2217": _code(
        "The function returns another result at each call, so a view's rows would depend on the time of computation.",
        "Use a column of the source that holds the time or the value.",
    ),
    "SQ2218": _code(
        "Postgres has no cast between these types.",
        "Cast through a type that converts to both, for example text.",
    ),
    "SQ2219": _code(
        "WHERE, ON, HAVING, FILTER, WHEN, AND, OR or NOT has a value that is not a boolean.",
        "Compare the value, as in value <> 0.",
    ),
    "SQ2220": _code(
        (
            "The relation's rows can be deleted or changed, and a sum of floating-point numbers cannot subtract a "
            "row exactly."
        ),
        "Cast the argument to numeric, as in sum(value::numeric(38,10)).",
    ),
    "SQ2221": _code(
        "The parts of UNION, or a list of column names, have different numbers of columns.",
        "Use the same number of columns in all of them.",
    ),
    "SQ2222": _code(
        "GROUP BY, ORDER BY or DISTINCT ON has a constant that is no position in the select list.",
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
        "LIMIT, OFFSET or FETCH has no whole number.",
        "Write a number, as in LIMIT 10.",
    ),
    "SQ2226": _code(
        (
            "With DISTINCT or UNION, ORDER BY can use only columns of the result. With DISTINCT ON, it must begin "
            "with the same expressions."
        ),
        "Order by columns of the result, or put the query into a subquery in FROM.",
    ),
    "SQ2227": _code(
        "Two relations in FROM have the same name, so a reference to a column would be ambiguous.",
        "Use an alias for one of them, as in FROM employees AS e JOIN employees AS boss ON ….",
    ),
    "SQ2228": _code(
        "NATURAL JOIN compares the columns that both relations have, but these relations share no column name.",
        "Write a condition with ON, or use CROSS JOIN for all pairs of rows.",
    ),
    "SQ2238": _code(
        (
            "A subquery has the wrong number of columns. A subquery that is a value needs one; before IN, the "
            "numbers on both sides must agree."
        ),
        "Select that number of columns in the subquery.",
    ),
    "SQ2229": _code(
        (
            "A notice: a join compares no columns for equality. Every task keeps all rows of one relation, and "
            "each change of the other reads all of them."
        ),
        "Join on an equality if you can. If one of the relations is small, you need not do anything.",
    ),
    "SQ2239": _code(
        (
            "A notice: one task keeps all rows, and each commit that changes a row reads all of them. The query "
            "has a window function without PARTITION BY, an aggregate over all rows without GROUP BY, or OFFSET "
            "without LIMIT."
        ),
        "Add PARTITION BY, GROUP BY or LIMIT. If there are few rows, you need not do anything.",
    ),
    "SQ2241": _code(
        (
            "A notice: a view's query has ORDER BY without LIMIT. A view's rows have no order, so the clause has "
            "no effect."
        ),
        (
            "Leave out ORDER BY, or add LIMIT. Write ORDER BY in the query that reads the view, as in SELECT * "
            "FROM v ORDER BY id."
        ),
    ),
    "SQ2242": _code(
        "The frame of a window is not valid, or its offset is not a suitable constant.",
        "Write the earlier bound first, as in ROWS BETWEEN 2 PRECEDING AND CURRENT ROW.",
    ),
    "SQ2243": _code(
        "OVER names a window that WINDOW does not define, or overrides a clause of that window.",
        (
            "Define it after FROM and WHERE, as in WINDOW w AS (PARTITION BY k). Add only clauses that the "
            "definition lacks."
        ),
    ),
    "SQ2247": _code(
        (
            "REPLICATE names a relation that is no side of a join in the view. The view does not read it, or "
            "reads it only together with others."
        ),
        "Write the names of relations in FROM and JOIN, without their aliases.",
    ),
    "SQ2248": _code(
        (
            "REPLICATE names the outer side of an outer join, or the relation that a subquery filters. A task "
            "sees only a part of the other side, so it cannot know whether a row has a match."
        ),
        "Name the other side, or leave the relation out of REPLICATE.",
    ),
    "SQ2284": _code(
        "A query over the system catalog has a form or an expression that is not supported there.",
        "Use joins, subqueries, GROUP BY, ORDER BY, and expressions that views support.",
    ),
}
