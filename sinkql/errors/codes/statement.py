"""Error codes of views, clusters, secrets, settings, queries, transactions, and of sinkql lint."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.MEANING)

CODES = {
    "SQ2601": _code(
        "A view's list of column names has another length than the query's list of columns.",
        "Name each column of the query.",
    ),
    "SQ2602": _code(
        "A cluster has neither SIZE nor MASTER.",
        "Write SIZE = 'local[2]' for Spark on this machine, or MASTER for a Spark cluster.",
    ),
    "SQ2603": _code(
        "A cluster has both SIZE and MASTER.",
        "Leave out one. SIZE is for Spark on this machine, MASTER for a Spark cluster.",
    ),
    "SQ2604": _code(
        "The size of a cluster must be local[n] or local[*].",
        "Write SIZE = 'local[2]' for two cores, or 'local[*]' for all of them.",
    ),
    "SQ2605": _code(
        "MASTER is not an address that Spark accepts.",
        "Write an address, for example spark://host:7077, yarn or k8s://https://host:6443.",
    ),
    "SQ2606": _code(
        "A local cluster runs in one process, so options for executors do not apply.",
        "Leave out the option. SIZE sets the number of cores.",
    ),
    "SQ2608": _code(
        "MEMORY is not an amount of memory.",
        "Write a number and a unit, as in '4g' or '512m'.",
    ),
    "SQ2609": _code(
        "CONF has a key that is not the name of a Spark setting.",
        "Use names that begin with `spark.`.",
    ),
    "SQ2610": _code(
        "A function in the value of a secret has an empty string as an argument.",
        "Write the value that the function needs, for example the name of a variable.",
    ),
    "SQ2611": _code(
        "The text in decode(…) is not valid in the encoding that it names.",
        "Check that you copied the whole text.",
    ),
    "SQ2612": _code(
        "The function decode(…) names an encoding other than base64 or hex.",
        "Use 'base64' or 'hex'.",
    ),
    "SQ2613": _code(
        "The result of decode(…) is not UTF-8 text.",
        "Leave out decode to keep the text unchanged.",
    ),
    "SQ2614": _code(
        "CREATE SECRET joins a reference to a secret, for example env_var(…), with ||.",
        "Create a secret for each part, and join them in the option of the connection.",
    ),
    "SQ2615": _code(
        (
            "STATE of a cluster names neither a bucket nor a folder, or STATE and AWS CONNECTION do not go "
            "together. A bucket needs both options."
        ),
        (
            "Write STATE = 's3://bucket/prefix', AWS CONNECTION = name, or STATE = '/a/folder'. Without both, the "
            "state is in the catalog's folder."
        ),
    ),
    "SQ2616": _code(
        "SinkQL cannot create the folder that STATE of a cluster names, or cannot create files in it.",
        "Name a bucket, or a folder in which the user that runs sinks may create files.",
    ),
    "SQ2617": _code(
        (
            "The state of a cluster's sinks is where STATE says, so STATE cannot change once it is set. A sink "
            "can move only to a cluster with the same STATE."
        ),
        (
            "Create a cluster with the same STATE and move the sink to it. Or create another sink with a new "
            "table. A cluster without STATE can get one: its sinks move their state with the next commit."
        ),
    ),
    "SQ2618": _code(
        "A cluster with MASTER has no STATE. Executors on other machines cannot read the catalog's folder.",
        "Add STATE with a bucket or a folder that all machines of the cluster share.",
    ),
    "SQ2630": _code(
        "The setting does not exist.",
        "Use one of the settings that the hint lists, or SHOW ALL.",
    ),
    "SQ2631": _code(
        "The value of a setting has the wrong type.",
        "Write the value as the hint shows.",
    ),
    "SQ2635": _code(
        "A file for sinkql plan may contain only statements that describe the desired items.",
        "Keep CREATE, COMMENT ON, SET and ALTER SYSTEM SET in it. Run other statements with sinkql exec.",
    ),
    "SQ2636": _code(
        "The setting exists for compatibility with Postgres and has only one value.",
        "Leave out the statement.",
    ),
    "SQ2637": _code(
        "A notice: SET, RESET or ALTER SYSTEM names a setting that does not exist. The statement changes nothing.",
        "Leave out the statement to avoid the notice.",
    ),
    "SQ2645": _code(
        "A path in FROM has an unknown file ending, matches no file, or is in S3 without a connection.",
        (
            "Check the path, and write FROM read_csv('…'), read_json('…') or read_parquet('…'). For files in S3, "
            "write FROM read_csv('s3://…', connection => name)."
        ),
    ),
    "SQ2646": _code(
        "A function that reads files needs a path in single quotes. Files in S3 also need a connection.",
        (
            "Write FROM read_csv('folder/*') or FROM read_csv('s3://bucket/folder', connection => name). For "
            "other files, create a source."
        ),
    ),
    "SQ2641": _code(
        "The query reads more rows of a relation than a query can hold.",
        "Create a materialized view and a sink of the query, or add LIMIT.",
    ),
    "SQ2643": _code(
        "SinkQL cannot read the rows that the sink wrote.",
        "Select from the relation that the sink reads.",
    ),
    "SQ2644": _code(
        "A notice: some rows of the source are not valid, and the query leaves them out.",
        "Correct the rows where the source reads them.",
    ),
    "SQ2661": _code(
        (
            "A pipeline test changes rows in a way that the relation does not support. Examples are a deletion in "
            "an append-only source, a replacement without a key, and any change of a view or sink."
        ),
        "Insert rows into a source or a table.",
    ),
    "SQ2662": _code(
        "A pipeline test deletes a row that does not exist.",
        "Insert the row first, or correct the values.",
    ),
    "SQ2663": _code(
        (
            "Tests with `sinkql.testing` run without Spark, and only Spark can compute this expression, or its "
            "exact value for a row. Tests never return another value than Spark would."
        ),
        "Leave the expression out of the test. Or test it with a session, whose SELECT starts Spark if needed.",
    ),
    "SQ2647": _code(
        "A date or time is outside the years 1 to 9999.",
        "Exclude these rows with WHERE, or cast the value to text. Sinks can write such values.",
    ),
    "SQ2648": _code(
        (
            "A notice: a query reads a source to which others send rows. No server stores these rows, so the "
            "query reads the source's log."
        ),
        "The log may have deleted older rows. To see all rows, select from a sink's table.",
    ),
    "SQ2649": _code(
        (
            "A notice: a query reads a materialized view that a separate job computes. It shows the rows of the "
            "job's last commit."
        ),
        "You need not do anything. If the view's job does not run, start it with sinkql up.",
    ),
    "SQ2650": _code(
        "An earlier statement of the transaction failed.",
        "Run ROLLBACK, correct the statement, and run the transaction again.",
    ),
    "SQ2651": _code(
        "A notice: BEGIN ran inside a transaction.",
        "You need not do anything.",
    ),
    "SQ2652": _code(
        "A notice: COMMIT or ROLLBACK ran outside a transaction.",
        "You need not do anything.",
    ),
    "SQ2653": _code(
        "A notice: COMMIT ended a failed transaction, so SinkQL rolled it back.",
        "Correct the failed statement, and run the transaction again.",
    ),
    "SQ2654": _code(
        "The transaction is READ ONLY, and the statement would change something.",
        "Run ROLLBACK, and begin a transaction that is READ WRITE.",
    ),
    "SQ2655": _code(
        "The script has BEGIN without COMMIT, so the transaction's changes were discarded.",
        "Write COMMIT at the end.",
    ),
    "SQ2656": _code(
        "A notice: SUBSCRIBE follows a materialized view whose job does not run, so no changes arrive.",
        "Run sinkql up.",
    ),
    "SQ2657": _code(
        "SUBSCRIBE ended. The materialized view was dropped, got other columns, or no longer has the next changes.",
        "Subscribe again.",
    ),
    "SQ2701": _code(
        "A warning of sinkql lint: the script contains the value of a secret in clear text.",
        "Use env_var, file or another reference, or run sinkql secret set NAME.",
    ),
    "SQ2702": _code(
        "A warning of sinkql lint: the materialized view's columns change when the relation's columns change.",
        "Name the columns.",
    ),
    "SQ2703": _code(
        (
            "A warning of sinkql lint: each commit writes at least one file, and tables with many small files are "
            "slow to read."
        ),
        "Use a longer COMMIT INTERVAL.",
    ),
    "SQ2704": _code(
        "A warning of sinkql lint: no sink and no other item uses the item.",
        "Remove it, or create a sink that reads it.",
    ),
    "SQ2770": _code(
        "A warning of sinkql lint: two files of a folder create an item of the same name.",
        "Remove one of the statements. If several files need the item, write IF NOT EXISTS in each.",
    ),
}
