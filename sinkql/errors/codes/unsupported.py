"""Error codes of what the dialect has and this version does not support yet."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.MEANING)

CODES = {
    "SQ2902": _code(
        "The dialect has this clause or format for files, but this version of SinkQL does not support it.",
        "Leave out the clause, or use the alternative in the hint.",
    ),
    "SQ2903": _code(
        "The dialect has connections of this kind, but this version of SinkQL does not support them.",
        "Use one of the kinds that the hint lists.",
    ),
    "SQ2904": _code(
        "CREATE TEMPORARY VIEW is not supported.",
        "Leave out TEMPORARY, and drop the view when it is no longer needed.",
    ),
    "SQ2905": _code(
        "The dialect has this option of views, but this version of SinkQL does not support it.",
        "Leave it out, or do what the hint says.",
    ),
    "SQ2908": _code(
        "CREATE CLUSTER lists replicas, but a SinkQL cluster is one Spark application.",
        "Write SIZE or MASTER instead.",
    ),
    "SQ2909": _code(
        "The dialect has this option of clusters, but this version of SinkQL does not support it.",
        "Leave it out.",
    ),
    "SQ2910": _code(
        "A cluster has a REPLICATION FACTOR other than 1, but a SinkQL cluster is one Spark application.",
        "Write REPLICATION FACTOR = 1, or leave it out.",
    ),
    "SQ2913": _code(
        "The dialect has this catalog type, but this version of SinkQL does not support it.",
        "Use CATALOG TYPE = 'sql', 'rest', 's3tablesrest', 'glue' or 'hive'.",
    ),
    "SQ2924": _code(
        "SinkQL does not support WITH RECURSIVE.",
        "Write the query without recursion.",
    ),
    "SQ2926": _code(
        (
            "A subquery is not supported here. Examples are a DEFAULT, a call in FROM, and ON of a FULL JOIN with "
            "columns of both sides. A subquery with several rows also needs a type whose values can be compared."
        ),
        "Put the query into WHERE, HAVING, the select list or FROM.",
    ),
    "SQ2928": _code(
        (
            "FROM has an unsupported function or a RIGHT or FULL JOIN of LATERAL, or an expression calls a "
            "set-returning function."
        ),
        "Select from a source, table or view.",
    ),
    "SQ2932": _code(
        "SinkQL does not support the aggregate, or its form with DISTINCT or WITHIN GROUP.",
        "Use another aggregate, or select the DISTINCT rows in a subquery in FROM.",
    ),
    "SQ2933": _code(
        "SinkQL does not support a clause of the query.",
        "Leave out the clause.",
    ),
    "SQ2935": _code(
        "The dialect has this type, but this version of SinkQL does not support it here.",
        "Use the type that the hint names.",
    ),
    "SQ2934": _code(
        "A frame with GROUPS or EXCLUDE works only in views, not in a query that runs once.",
        "Create a view with it and a sink, and select from the sink.",
    ),
    "SQ2936": _code(
        (
            "From this use of mz_now(), SinkQL cannot derive when rows appear or disappear. Examples are the "
            "select list, OR, NOT and larger expressions."
        ),
        (
            "Compare mz_now() alone with one value in WHERE or HAVING, as in WHERE mz_now() <= created_at + "
            "INTERVAL '1 hour'. Move additions to the other side. Instead of OR, combine views with UNION."
        ),
    ),
    "SQ2939": _code(
        (
            "FOR SYSTEM_TIME AS OF joins a relation as of the time of processing. If the view were computed "
            "again, it would have other rows."
        ),
        (
            "Leave out FOR SYSTEM_TIME AS OF. The join then follows changes of both sides. To join with earlier "
            "versions, store the validity period of each row, and compare it."
        ),
    ),
    "SQ2940": _code(
        "SinkQL does not support CHECK constraints of tables.",
        "Leave it out, and test the rows in a view with WHERE.",
    ),
    "SQ2941": _code(
        "SinkQL does not support foreign keys.",
        "Leave it out, and find rows without a match with a query.",
    ),
    "SQ2942": _code(
        "CREATE TEMPORARY TABLE is not supported.",
        "Leave out TEMPORARY, and drop the table when it is no longer needed.",
    ),
    "SQ2943": _code(
        "The dialect has this option of tables, but this version of SinkQL does not support it.",
        "Leave it out.",
    ),
    "SQ2944": _code(
        "SinkQL does not support collations. It compares text byte by byte.",
        "Leave out COLLATE.",
    ),
    "SQ2945": _code(
        "SinkQL does not support DELETE with rows of another relation.",
        "Write the keys into WHERE, as in WHERE id IN (1, 2).",
    ),
    "SQ2946": _code(
        "SinkQL does not support RETURNING.",
        "Select the rows afterwards.",
    ),
    "SQ2961": _code(
        "The statement cannot be part of a transaction.",
        "Run it before BEGIN or after COMMIT.",
    ),
    "SQ2962": _code(
        "SinkQL does not support COPY.",
        "Write the rows into files, and read them with CREATE SOURCE … FROM FILES.",
    ),
    "SQ2963": _code(
        (
            "SinkQL does not support cursors and prepared statements. SUBSCRIBE works for a materialized view "
            "that a separate job computes, without AS OF, UP TO and ENVELOPE."
        ),
        "Run the query directly, or create a sink and query its table.",
    ),
    "SQ2965": _code(
        "The dialect can alter items of this kind, but this version of SinkQL has no such items.",
        "Leave out the statement.",
    ),
    "SQ2966": _code(
        "SinkQL does not support DISCARD.",
        "Reset each setting with SET name = DEFAULT.",
    ),
    "SQ2967": _code(
        "The dialect has items of this kind, but this version of SinkQL does not support them.",
        "Use secrets, connections, clusters, sources, tables, views, materialized views and sinks.",
    ),
    "SQ2969": _code(
        "SinkQL has no roles or privileges. Every user who can open the catalog file may do everything.",
        "Leave out the statement, and protect the catalog file.",
    ),
    "SQ2970": _code(
        "This version of SinkQL does not support a stage or an option of EXPLAIN.",
        "Use one of the stages that the hint lists. The only option is STATE, for a sink's physical plan.",
    ),
    "SQ2971": _code(
        "The dialect has sources from this system, but this version of SinkQL cannot read from it.",
        "Use one of the kinds that the hint lists.",
    ),
    "SQ2973": _code(
        "The dialect has this clause of sources, but this version of SinkQL does not support it.",
        "Leave out the clause, or do what the hint says.",
    ),
    "SQ2974": _code(
        "The dialect has this clause of views, but this version of SinkQL does not support it.",
        "Leave out the clause, or do what the hint says.",
    ),
    "SQ2975": _code(
        "SinkQL does not support FEATURES of clusters.",
        "Leave out FEATURES.",
    ),
    "SQ2978": _code(
        "The value of a secret is a hexadecimal string X'…', which SinkQL does not support.",
        "Write decode('…', 'hex').",
    ),
    "SQ2979": _code(
        "The value of a secret is an expression, which SinkQL does not support.",
        "Write a string, decode(…) or a reference, for example env_var('NAME'), joined with ||.",
    ),
    "SQ2980": _code(
        "A query reads the system catalog together with another relation.",
        "Query the system catalog and the relation separately.",
    ),
    "SQ2982": _code(
        "ALTER SINK … SET FROM names a relation that groups rows. Its state would begin empty.",
        "Create another sink with a new table.",
    ),
    "SQ2983": _code(
        "The dialect has this form of ALTER, but this version of SinkQL does not support it.",
        "Do what the hint says.",
    ),
    "SQ2984": _code(
        "Connections of this kind have no separate check.",
        "Create a sink or source that uses the connection. That tests it.",
    ),
    "SQ2985": _code(
        (
            "After the change, a sink's relation would have other rows or columns than the sink has written. "
            "SinkQL can neither change the table in place nor recompute the rows."
        ),
        "Create another view, and another sink of it with a new table.",
    ),
    "SQ2986": _code(
        "The query names an item by its id, as in [u1 AS orders], which SinkQL does not support.",
        "Write the name of the item.",
    ),
    "SQ2987": _code(
        "The query asks for the rows of an earlier time, which SinkQL does not support.",
        "Leave out AS OF. A query reads the current rows.",
    ),
    "SQ2988": _code(
        "The dialect has this option of connections, but this version of SinkQL does not support it.",
        "Do what the hint says.",
    ),
    "SQ2995": _code(
        "The dialect has this option of sinks, but this version of SinkQL does not support it.",
        "Leave it out.",
    ),
}
