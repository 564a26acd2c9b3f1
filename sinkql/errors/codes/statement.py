"""Error codes of views, clusters, secrets, settings, queries, transactions, and of sinkql lint."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.MEANING)

CODES = {
    "SQ2601": _code(
        "A view has a list of column names that is not as long as the list of columns of its query.",
        "Name each column of the query.",
    ),
    "SQ2602": _code(
        "A cluster has neither SIZE nor MASTER.",
        "Write SIZE = 'local[2]' for Spark on this machine, or MASTER for a Spark cluster.",
    ),
    "SQ2603": _code(
        "A cluster has both SIZE and MASTER.",
        "Leave out one: SIZE is for Spark on this machine, MASTER for a Spark cluster.",
    ),
    "SQ2604": _code(
        "The size of a cluster is not of the form local[n] or local[*].",
        "Write SIZE = 'local[2]' for two cores, or 'local[*]' for all of them.",
    ),
    "SQ2605": _code(
        "MASTER is not an address that Spark understands.",
        "Write an address such as spark://host:7077, yarn or k8s://https://host:6443.",
    ),
    "SQ2606": _code(
        "A local cluster runs in one process, so options about executors do not apply.",
        "Leave the option out; SIZE sets the number of cores.",
    ),
    "SQ2608": _code(
        "MEMORY is not an amount of memory.",
        "Write a number and a unit, as in '4g' or '512m'.",
    ),
    "SQ2609": _code(
        "CONF has a key that is not the name of a Spark setting.",
        "Use names that begin with spark.",
    ),
    "SQ2610": _code(
        "A function in the value of a secret has an empty string as an argument.",
        "Write what the function should read, such as the name of a variable.",
    ),
    "SQ2611": _code(
        "The text in decode(…) is not valid in the encoding that it names.",
        "Check that the text was copied completely.",
    ),
    "SQ2612": _code(
        "The function decode(…) names an encoding other than base64 or hex.",
        "Use 'base64' or 'hex'.",
    ),
    "SQ2613": _code(
        "The value that decode(…) gives is not UTF-8 text.",
        "Leave out decode to keep the text as it is written.",
    ),
    "SQ2614": _code(
        "A reference to a secret, such as env_var(…), is combined with || in CREATE SECRET.",
        "Create a secret for each part, and join them in the option of the connection.",
    ),
    "SQ2615": _code(
        "The state of a cluster's sinks is kept in a bucket that STATE names, reached by the connection that AWS "
        "CONNECTION names, or in a folder; one of them is missing, or STATE names neither a bucket nor a folder.",
        "Write STATE = 's3://bucket/prefix', AWS CONNECTION = name; or STATE = '/a/folder'; or leave out both: the "
        "state is in the catalog's folder then.",
    ),
    "SQ2616": _code(
        "STATE of a cluster names a folder that cannot be made, or in which no file can be made.",
        "Name a folder in which the user who runs sinks may make files, or a bucket.",
    ),
    "SQ2617": _code(
        "The state of a cluster's sinks lies where STATE says, and would be left behind there. So STATE cannot change "
        "once it is set, and a sink moves only to a cluster with the same one.",
        "Create a cluster with the same STATE and set the sink to that, or create another sink, into a new table. A "
        "cluster without STATE can be given one: its sinks take their state there with their next commit.",
    ),
    "SQ2618": _code(
        "A cluster with MASTER has no STATE: its executors, on other machines, do not see the catalog's folder.",
        "Add STATE, a bucket or a folder that all machines of the cluster have.",
    ),
    "SQ2630": _code(
        "The setting does not exist.",
        "Use one of the settings that the hint lists, or SHOW ALL.",
    ),
    "SQ2631": _code(
        "The value of a setting has the wrong type.",
        "Write the value as the hint shows it.",
    ),
    "SQ2635": _code(
        "A file for sinkql plan may only have statements that describe what should exist.",
        "Keep CREATE, COMMENT ON, SET and ALTER SYSTEM SET in it, and run other statements with sinkql exec.",
    ),
    "SQ2636": _code(
        "The setting exists for compatibility with Postgres, and has only one value.",
        "Leave the statement out.",
    ),
    "SQ2637": _code(
        "A notice: SET, RESET or ALTER SYSTEM names a setting that does not exist.",
        "Nothing needs to be done: the statement changes nothing. Leave it out to be rid of the notice.",
    ),
    "SQ2645": _code(
        (
            "A query names a path in FROM whose ending does not say what is in it, under which nothing lies, or which "
            "is in S3 while no connection is named."
        ),
        (
            "Write FROM read_csv('…'), read_json('…') or read_parquet('…'), and check the path; for files in S3 "
            "FROM read_csv('s3://…', connection => name)."
        ),
    ),
    "SQ2646": _code(
        "A function that reads files in FROM takes a path in single quotes, and for files in S3 a connection.",
        (
            "Write FROM read_csv('folder/*') or FROM read_csv('s3://bucket/folder', connection => name). For other "
            "forms of files, create a source from them."
        ),
    ),
    "SQ2641": _code(
        "A query that runs at once would read more rows than fit.",
        "Create a materialized view and a sink of the query, or add LIMIT.",
    ),
    "SQ2643": _code(
        "SinkQL cannot read the rows that the sink wrote.",
        "Select from the relation that the sink reads.",
    ),
    "SQ2644": _code(
        "A notice: some rows of the source are not valid, and the query left them out.",
        "Correct the rows where the source reads them.",
    ),
    "SQ2661": _code(
        "A test of a pipeline changes rows in a way that their relation does not have: it deletes rows of a source "
        "whose rows only come, replaces rows of a table without a key, gives records to a source without FORMAT, or "
        "rows to a view or a sink.",
        "Insert rows, into a source or a table.",
    ),
    "SQ2662": _code(
        "A test of a pipeline deletes a row that is not there.",
        "Insert the row first, or correct the values.",
    ),
    "SQ2663": _code(
        "A pipeline is tested without Spark (`sinkql.testing`), and only Spark can compute this expression, or its "
        "exact value for a row. Tests never give another value than Spark would.",
        "Leave the expression out of the test, or test it with a session, whose SELECT starts Spark where it must.",
    ),
    "SQ2647": _code(
        "A statement comes upon a date or time outside the years 1 to 9999.",
        "Leave such rows out with WHERE, or cast the value to text. Sinks write them as they are.",
    ),
    "SQ2648": _code(
        "A notice: a query reads a source whose rows others send. No server has them: the source's log is read.",
        "Sinks have all rows: select from a sink's table for those that the log has forgotten.",
    ),
    "SQ2649": _code(
        "A notice: a query reads a materialized view that is a job of its own. Its rows are those of its last commit.",
        "Nothing has to be done. Where the view's job does not run, start it: sinkql up.",
    ),
    "SQ2650": _code(
        "An earlier statement of the transaction failed.",
        "Run ROLLBACK, correct the statement, and begin again.",
    ),
    "SQ2651": _code(
        "A notice: BEGIN was run inside a transaction.",
        "Nothing needs to be done.",
    ),
    "SQ2652": _code(
        "A notice: COMMIT or ROLLBACK was run outside of a transaction.",
        "Nothing needs to be done.",
    ),
    "SQ2653": _code(
        "A notice: COMMIT ended a failed transaction, which was rolled back.",
        "Correct the statement that failed, and run the transaction again.",
    ),
    "SQ2654": _code(
        "The transaction was begun READ ONLY, and the statement would change something.",
        "Run ROLLBACK, and begin a transaction that is READ WRITE.",
    ),
    "SQ2655": _code(
        "The script has BEGIN without COMMIT, so nothing of the transaction was kept.",
        "Write COMMIT at the end.",
    ),
    "SQ2656": _code(
        "A notice: no process runs the materialized view that SUBSCRIBE follows, so nothing changes in it.",
        "Run sinkql up.",
    ),
    "SQ2657": _code(
        "SUBSCRIBE has ended: the materialized view was dropped, or was replaced by one with other columns, or its "
        "changes are gone because its folder was lost or SUBSCRIBE slept for long.",
        "Subscribe again.",
    ),
    "SQ2701": _code(
        "A warning of sinkql lint: the script has the value of a secret in the clear.",
        "Use env_var, file or another reference, or run sinkql secret set NAME.",
    ),
    "SQ2702": _code(
        "A warning of sinkql lint: the columns of the materialized view change when those of the relation do.",
        "Name the columns.",
    ),
    "SQ2703": _code(
        (
            "A warning of sinkql lint: each commit makes at least one file, and tables of many small files are "
            "slow to read."
        ),
        "Use a longer COMMIT INTERVAL.",
    ),
    "SQ2704": _code(
        "A warning of sinkql lint: no sink and no other item uses the item.",
        "Leave it out, or create a sink that reads it.",
    ),
    "SQ2770": _code(
        "A warning of sinkql lint: two files of a folder create an item of the same name.",
        "Leave one of the statements out. Files that create what others may have created write IF NOT EXISTS.",
    ),
}
