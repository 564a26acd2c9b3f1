"""Error codes of what the dialect has and this version does not support yet."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.MEANING)

CODES = {
    "SQ2902": _code(
        "The dialect has this clause or format for files, but this version of SinkQL cannot run it.",
        "Leave the clause out, or use what the hint names.",
    ),
    "SQ2903": _code(
        "The dialect has connections of this kind, but this version of SinkQL cannot make them.",
        "Use one of the kinds that the hint lists.",
    ),
    "SQ2904": _code(
        "CREATE TEMPORARY VIEW is not supported.",
        "Leave out TEMPORARY, and drop the view when it is no longer needed.",
    ),
    "SQ2905": _code(
        "The dialect has this option of views, but this version of SinkQL does not run it.",
        "Leave it out, or follow the hint.",
    ),
    "SQ2908": _code(
        "CREATE CLUSTER lists replicas. A cluster of SinkQL is one Spark application.",
        "Write SIZE or MASTER instead.",
    ),
    "SQ2909": _code(
        "The dialect has this option of clusters, but this version of SinkQL does not run it.",
        "Leave it out.",
    ),
    "SQ2910": _code(
        "A cluster asks for more than one replica, or none. A cluster of SinkQL is one Spark application.",
        "Write REPLICATION FACTOR = 1, or leave it out.",
    ),
    "SQ2913": _code(
        "The dialect has this catalog type, but this version of SinkQL cannot use it.",
        "Use CATALOG TYPE = 'sql', 'rest', 's3tablesrest', 'glue' or 'hive'.",
    ),
    "SQ2924": _code(
        "The query is WITH RECURSIVE.",
        "Write the query without recursion.",
    ),
    "SQ2926": _code(
        "An expression contains a query where none is planned: in a DEFAULT, in a call in FROM; or a query "
        "in ON of FULL JOIN uses columns of both sides; or a subquery that may give several rows has "
        "a type whose values cannot be compared.",
        "Put the query into WHERE, HAVING, the select list or FROM.",
    ),
    "SQ2928": _code(
        "FROM has a function that is not supported, or RIGHT or FULL JOIN of LATERAL or of a function; or an "
        "expression calls a function that returns a set.",
        "Select from a source, table or view.",
    ),
    "SQ2932": _code(
        "The aggregate, or its form with DISTINCT or WITHIN GROUP, is not supported.",
        "Use another aggregate, or take the DISTINCT rows in a subquery in FROM.",
    ),
    "SQ2933": _code(
        "The query has a clause that SinkQL does not run.",
        "Leave the clause out.",
    ),
    "SQ2935": _code(
        "The dialect has this type, but this version of SinkQL does not support it here.",
        "Use the type that the hint names.",
    ),
    "SQ2934": _code(
        "A query that runs once has a frame of GROUPS, or one with EXCLUDE, which only views have.",
        "Create a view with it and a sink, and select from the sink.",
    ),
    "SQ2936": _code(
        "The function mz_now() stands where no time follows from it at which rows come or go: in the select list, in "
        "OR or NOT, or within an expression.",
        "Compare it alone with one value, as in WHERE mz_now() <= created_at + INTERVAL '1 hour', or in HAVING. Move "
        "what is added to it or taken from it to the other side. In place of OR combine views with UNION.",
    ),
    "SQ2939": _code(
        "A relation is joined as it is at the time at which the other row is processed. Computed again, the view would "
        "have other rows.",
        "Leave FOR SYSTEM_TIME AS OF out: a join is kept up to date as either side changes. To join with what was "
        "there at the time of a column, keep from when until when each row was valid, and compare that.",
    ),
    "SQ2940": _code(
        "CREATE TABLE has a CHECK constraint.",
        "Leave it out, and test the rows in a view with WHERE.",
    ),
    "SQ2941": _code(
        "CREATE TABLE has a foreign key.",
        "Leave it out, and look for rows without a partner with a query.",
    ),
    "SQ2942": _code(
        "CREATE TEMPORARY TABLE is not supported.",
        "Leave out TEMPORARY, and drop the table when it is no longer needed.",
    ),
    "SQ2943": _code(
        "The dialect has this option of tables, but this version of SinkQL does not run it.",
        "Leave it out.",
    ),
    "SQ2944": _code(
        "A column of a table has a collation.",
        "Leave COLLATE out; SinkQL compares text byte by byte.",
    ),
    "SQ2945": _code(
        "DELETE uses the rows of another relation.",
        "Write the keys into WHERE, as in WHERE id IN (1, 2).",
    ),
    "SQ2946": _code(
        "INSERT, UPDATE or DELETE has RETURNING.",
        "Select the rows afterwards.",
    ),
    "SQ2961": _code(
        "The statement cannot be part of a transaction.",
        "Run it before BEGIN or after COMMIT.",
    ),
    "SQ2962": _code(
        "COPY is not supported.",
        "Write the rows into files, and read them with CREATE SOURCE … FROM FILES.",
    ),
    "SQ2963": _code(
        "Cursors and prepared statements are not supported. SUBSCRIBE follows a materialized view that is a job of its "
        "own, and takes neither AS OF, UP TO nor ENVELOPE.",
        "Run the query itself, or create a sink and query its table.",
    ),
    "SQ2965": _code(
        "The dialect can alter items of this kind, but this version of SinkQL has none of them.",
        "Leave the statement out.",
    ),
    "SQ2966": _code(
        "DISCARD is not supported.",
        "Set each setting to its default with SET name = DEFAULT.",
    ),
    "SQ2967": _code(
        "The dialect has items of this kind, but this version of SinkQL does not.",
        "Use secrets, connections, clusters, sources, tables, views, materialized views and sinks.",
    ),
    "SQ2969": _code(
        "SinkQL has no roles or privileges: whoever can open the catalog file may do everything.",
        "Leave the statement out, and protect the catalog file.",
    ),
    "SQ2970": _code(
        "EXPLAIN has a stage or an option that this version of SinkQL does not show.",
        "Use one of the stages that the hint lists, without options but STATE, which a sink's physical plan has.",
    ),
    "SQ2971": _code(
        "The dialect has sources from this system, but this version of SinkQL cannot read from it.",
        "Use FROM FILES or FROM LOAD GENERATOR.",
    ),
    "SQ2973": _code(
        "The dialect has this clause of sources, but this version of SinkQL does not run it.",
        "Leave the clause out, or follow the hint.",
    ),
    "SQ2974": _code(
        "The dialect has this clause of views, but this version of SinkQL does not run it.",
        "Leave the clause out, or follow the hint.",
    ),
    "SQ2975": _code(
        "CREATE CLUSTER has FEATURES.",
        "Leave FEATURES out.",
    ),
    "SQ2978": _code(
        "The value of a secret is a hexadecimal string X'…'.",
        "Write decode('…', 'hex').",
    ),
    "SQ2979": _code(
        "The value of a secret is an expression.",
        "Write a string, decode(…) or a reference such as env_var('NAME'), joined with ||.",
    ),
    "SQ2980": _code(
        "A query over the system catalog also names another relation.",
        "Query the system catalog and the relation one after the other.",
    ),
    "SQ2982": _code(
        "ALTER SINK … SET FROM names a relation that groups rows, so it has state that begins empty.",
        "Create another sink, into a new table.",
    ),
    "SQ2983": _code(
        "The dialect has this form of ALTER, but this version of SinkQL does not run it.",
        "Follow the hint.",
    ),
    "SQ2984": _code(
        "Connections of this kind have no check that runs on its own.",
        "Create a sink or source that uses the connection; that tests it.",
    ),
    "SQ2985": _code(
        (
            "The change of a view or a table, or ALTER SINK … SET FROM, would give a sink other rows or columns than "
            "those that it has written. It cannot be made in place, nor can the rows of the sink be computed again."
        ),
        "Create another view, and another sink of it into a new table.",
    ),
    "SQ2986": _code(
        "The query names an item by its id, as in [u1 AS orders].",
        "Write the name of the item.",
    ),
    "SQ2987": _code(
        "The query asks for the rows of an earlier time.",
        "Leave AS OF out; a query reads the current rows.",
    ),
    "SQ2988": _code(
        "The dialect has this option of a connection, but this version of SinkQL cannot use it.",
        "Do what the hint says instead.",
    ),
    "SQ2995": _code(
        "The dialect has this option of a sink, but this version of SinkQL cannot use it.",
        "Leave it out.",
    ),
}
