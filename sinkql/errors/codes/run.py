"""Error codes of failures of a job while it runs."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.RUN)
_START = "A running `sinkql up` then starts the sinks; otherwise, run `sinkql up`."
_SKIP = (
    f"Run ALTER SOURCE … SKIP, for example `ALTER SOURCE shop SKIP;`. {_START} Upsert sinks do a full refresh from the "
    "server's current rows. Append sinks continue with later changes and never get the lost ones."
)

CODES = {
    "SQ3001": _code(
        "A batch failed with an unexpected error.",
        (
            "Read the detail, and spark.log in the cluster's folder in .sinkql/sinks/spark. Start the sink again: "
            "it continues from its last commit. If the error stays, report it."
        ),
    ),
    "SQ3101": _code(
        "A source read a record that does not fit its format or columns.",
        (
            "Correct the record at its origin, if the source reads it again, as with files. Otherwise run ALTER "
            "SOURCE … SET (ON ERROR = SKIP) to skip and count such records. SET (ON ERROR = DEAD LETTER) also "
            "stores them in a table. If you run a script with sinkql exec, change it too, or only change the script "
            "and run sinkql apply with it. A database source can read the column as text, with TEXT COLUMNS (…)."
        ),
    ),
    "SQ3102": _code(
        (
            "A file does not have its source's format. Its header lacks the source's columns, or the compressed "
            "file is damaged, truncated or empty. No row of it was written."
        ),
        (
            "Replace the file with a correct one under any name, or move it out of the folder to continue without "
            "its rows. Then start the sink again. If the source is wrong, create it with the FORMAT and columns "
            "of its files."
        ),
    ),
    "SQ3151": _code(
        "A row has a value that the column of the Iceberg table cannot store, for example NULL in a required column.",
        "Exclude such rows in the view, or convert the value, for example with COALESCE.",
        of_rows=True,
    ),
    "SQ3201": _code(
        (
            "An expression fails on a row, for example by a division by zero or a value out of range. The detail "
            "shows the row."
        ),
        (
            "Guard the expression with NULLIF or CASE, as in CASE WHEN x ~ '^[0-9]{1,9}$' THEN x::integer END. "
            "Run CREATE OR REPLACE MATERIALIZED VIEW with it. If a sink does not support this change, create "
            "another view, and another sink of it with a new table. Or correct the row in its table, and start "
            "the sink again. ON ERROR of a source does not skip such rows, because the view would then be wrong."
        ),
        of_rows=True,
    ),
    "SQ3211": _code(
        "The sum of a group is too large for its type.",
        "Cast the argument to numeric, or to a numeric with fewer fraction digits.",
        of_rows=True,
    ),
    "SQ3212": _code(
        "A subquery that is used as one value returned several rows.",
        "Aggregate in it, as in SELECT max(x) …, or compare more of its columns so that one row remains.",
        of_rows=True,
    ),
    "SQ3213": _code(
        (
            "This machine's clock is at least a minute behind the sink's last commit, which another machine may "
            "have made. The sink cannot commit, because mz_now() never goes back."
        ),
        "Set the clock, for example by NTP. The sink continues when the clock reaches that time.",
        retryable=True,
    ),
    "SQ3301": _code(
        (
            "A file changed after SinkQL listed it. SinkQL reads each file once, so it would lose or repeat the "
            "changed part. The detail shows the difference. No row of the new content was written. If the file was "
            "read before, its old rows are in the table."
        ),
        (
            "If the file grew, keep its old bytes under its name, as with head -c N: the detail says that it had N "
            "bytes. Put the rest into a new file, with the header line if the format has one. If the file was "
            "rewritten, restore its old content. If all of its old rows are in "
            "the table and no sink has to read them again, you can also delete it."
        ),
        symptoms=("file changed", "file was changed", "file grew", "file appended", "file rewritten", "head -c"),
    ),
    "SQ3302": _code(
        "A file was removed before the sink read all of it, or before it read it again for a full refresh.",
        "Restore the file.",
        retryable=True,
    ),
    "SQ3303": _code(
        "The list of processed files is missing or damaged, both in the sink's state folder and beside the table.",
        "Restore one of the two folders from a backup, or drop the sink and create it again with a new table.",
    ),
    "SQ3304": _code(
        "The folder of a files source does not exist or cannot be read.",
        (
            "Create the folder or correct its permissions. If PATH is wrong, correct it in the script, and run sinkql "
            "apply with all scripts."
        ),
        retryable=True,
    ),
    "SQ3305": _code(
        (
            "SinkQL cannot read an entry in the folder of a files source. It is a named pipe, a socket, a broken "
            "link, an unreadable file, or a name that is not UTF-8."
        ),
        "Correct it, move it, or exclude it by GLOB.",
        retryable=True,
    ),
    "SQ3306": _code(
        "SinkQL cannot write the list of processed files to the state folder: the disk is full or read-only.",
        "Free space on the disk, or correct the permissions of .sinkql.",
        retryable=True,
    ),
    "SQ3307": _code(
        "The bucket of a files source, of LOG or of STATE does not exist.",
        "Correct PATH, or ENDPOINT of the AWS connection, or create the bucket.",
        retryable=True,
    ),
    "SQ3308": _code(
        "The keys or the role of an AWS connection lack rights on the bucket of a files source, of LOG or of STATE.",
        (
            "Allow s3:ListBucket on the bucket and s3:GetObject on its objects. LOG and STATE also need "
            "s3:PutObject and s3:DeleteObject."
        ),
        retryable=True,
    ),
    "SQ3370": _code(
        "Kafka deleted messages of a topic before the sink read them, or messages that a full refresh needs.",
        (f"Run ALTER SOURCE … SKIP to continue with the messages that remain. {_START} Raise the topic's retention."),
        of_loss=True,
    ),
    "SQ3371": _code(
        (
            "The topic of a source was deleted, or created again under the same name. The stored offsets now mean "
            "other messages."
        ),
        f"Run ALTER SOURCE … SKIP to read the present topic from its beginning. {_START}",
        of_loss=True,
    ),
    "SQ3372": _code(
        (
            "A partition ends before the offsets that the sink has read, or has other messages there. Its brokers "
            "lost messages, or were restored from a copy."
        ),
        (
            f"Run ALTER SOURCE … SKIP. {_START} "
            "The sinks continue at the end of the partition, or with messages that are later than the last one "
            "they read."
        ),
        of_loss=True,
    ),
    "SQ3390": _code(
        "A connector returns rows with other columns than its source declares.",
        "This is a bug in the connector. Report it to its author.",
    ),
    "SQ3391": _code(
        "A failed task read a part of a source again and got different rows, so the batch was not committed.",
        "Make sure that the source's data does not change while a sink reads it, then start the sink again.",
    ),
    "SQ3392": _code(
        "A reader or a writer lost or repeated records: the counts do not agree. Nothing of the batch was written.",
        "This is a bug in SinkQL or in a connector. Report it. The table is unchanged.",
    ),
    "SQ3393": _code(
        "A source has ON ERROR = DEAD LETTER, but its sink writes to a system that has no dead-letter table.",
        "Run ALTER SOURCE … SET (ON ERROR = SKIP) or FAIL, or write to Iceberg or Kafka.",
    ),
    "SQ3394": _code(
        (
            "REPLAY ERRORS cannot replay dead letters of this source. They are incomplete, they are changes of "
            "rows that may have changed again, or the sink cannot accept a late record."
        ),
        "Correct the records at their origin, and send or write them again.",
    ),
    "SQ3401": _code(
        "A source deletes a row that it never inserted, so an aggregate would be wrong.",
        "Check that the sink reads the source from its beginning, and that each change contains the previous row.",
    ),
    "SQ3402": _code(
        "The state manifest of a sink is missing from its state folder.",
        "Restore the folder, or drop the sink and create it again with a new table.",
    ),
    "SQ3403": _code(
        (
            "The state manifest of a sink is damaged, or another version of SinkQL wrote it. An upsert sink first "
            "tries to recompute its state from its sources."
        ),
        "If the sink stopped, restore its state folder, or run the version of SinkQL that wrote it.",
    ),
    "SQ3404": _code(
        "A state file of a sink is missing or damaged.",
        "Restore the state folder, or drop the sink and create it again with a new table.",
    ),
    "SQ3405": _code(
        "The report of a task of a stateful operator did not arrive, so the batch was not committed.",
        (
            "Usually, you need not do anything: the sink retries the batch. If the error stays, read spark.log in "
            "the cluster's folder."
        ),
        retryable=True,
    ),
    "SQ3406": _code(
        "Two attempts of the same task returned different results, so the batch was not committed.",
        (
            "Usually, you need not do anything: the sink retries the batch. If the error stays, the input changes "
            "while the sink reads it."
        ),
        retryable=True,
    ),
    "SQ3407": _code(
        "Rows reached the wrong task of a stateful operator, so the batch was not committed.",
        "This is a bug in SinkQL. Report it.",
    ),
    "SQ3408": _code(
        "The sink's state has another number of hash buckets than the job expects.",
        "Restore the state folder, or drop the sink and create it again with a new table.",
    ),
    "SQ3409": _code(
        "A task would write a state file whose name is already used.",
        "Start the sink again. If the error stays, report it.",
    ),
    "SQ3410": _code(
        "The sink computes something else than at its last commit, so its state and its table no longer fit.",
        (
            "Drop the sink and create it again with a new table. The new table only gets the rows that the sources "
            "still have."
        ),
    ),
    "SQ3411": _code(
        "A file of an upsert sink's key index is damaged.",
        "Start the sink again. It rebuilds the index from the table.",
    ),
    "SQ3412": _code(
        "The file with a source's offsets is missing, both in the state folder and beside the table.",
        "Restore the file, or drop the sink and create it again with a new table.",
    ),
    "SQ3413": _code(
        (
            "Rows already had values in a new column before the sink got that column. They were inserted during "
            "the change, and the sink wrote them without these values."
        ),
        "Drop the sink and create it again with a new table.",
    ),
    "SQ3414": _code(
        (
            "A row has a value that is too large for the column's old type, because the column got a wider type "
            "after the sink started. No row of the batch was written."
        ),
        "You need not do anything: the sink continues with the new type. If it ran with --once, run it again.",
        retryable=True,
    ),
    "SQ3415": _code(
        (
            "The sink now computes something else, so it needs a full refresh. A source no longer has all old "
            "changes, or the sink began at the source's end. The table is unchanged."
        ),
        (
            "Restore the missing data that the message names, or undo the change of the sink. Otherwise drop the "
            "sink and create it again with a new table. The new table lacks the rows that the source no longer has."
        ),
    ),
    "SQ3416": _code(
        (
            "All rows of a source were removed together, as by TRUNCATE. They have no key, so an append sink or a "
            "Kafka sink does not know which rows to retract. Upsert sinks do a full refresh."
        ),
        (
            "Drop the sink and create it again with a new table or topic. If the table is truncated often, use an "
            "upsert sink, or add a primary key to the table."
        ),
    ),
    "SQ3417": _code(
        (
            "The server leaves unchanged values out of its changes, as Postgres does with long ones, and the sink "
            "lacks the previous row. Its state was lost, or the sink did not read the source from its beginning."
        ),
        "Drop the sink and create it again with a new table. With REPLICA IDENTITY FULL, Postgres sends all values.",
    ),
    "SQ3420": _code(
        "The file with a table's rows is missing or damaged, or cannot be read or written.",
        "Correct the problem that the detail describes, or restore the file from a backup.",
    ),
    "SQ3421": _code(
        (
            "A table's file lacks changes that a sink has already read, for example after you restored an older "
            "backup. Without them, the sink would miss rows or keep deleted ones."
        ),
        (
            "Restore the newer file, or drop the sink and create it again with a new table. For backups, use "
            "`sinkql catalog restore`, which sinks can follow."
        ),
    ),
    "SQ3422": _code(
        "A job from sinkql compile reads a table, but a table's rows are in a catalog.",
        "Create the table with sinkql exec, and run the sink from that catalog.",
    ),
    "SQ3430": _code(
        "A job from sinkql compile reads a captured source, which needs the capture process of a catalog.",
        "Create the source with sinkql exec, and run the sink from that catalog.",
    ),
    "SQ3431": _code(
        (
            "The process that captures the source did not answer the sink for a minute. It cannot reach the "
            "server, or one of the machines is overloaded."
        ),
        "The sink retries. SELECT * FROM mz_internal.mz_source_statuses shows the reason.",
        retryable=True,
    ),
    "SQ3432": _code(
        "A table was truncated on the server, and its source has ON TRUNCATE = FAIL.",
        (
            "Run ALTER SOURCE … SET (ON TRUNCATE = APPLY) to empty the tables of its sinks too, and start the "
            "sinks again."
        ),
    ),
    "SQ3433": _code(
        "A sink needs a column that the server dropped, renamed or changed to another type.",
        (
            "Run ALTER SOURCE … REFRESH REFERENCES, and start the sinks again. If the statement is refused, drop "
            "the sinks of the table first, and create them again with new tables. If the column is back in its "
            "old form, run ALTER SOURCE … SKIP: upsert sinks then do a full refresh. EXCLUDE COLUMNS leaves out "
            "columns that no sink needs."
        ),
        of_loss=True,
    ),
    "SQ3434": _code(
        (
            "The log of a source lacks the next changes: it was deleted, or the server no longer has them. Or it "
            "was lost just after the first snapshot of a table without a key. The sink would lose or repeat "
            "changes."
        ),
        _SKIP,
        of_loss=True,
    ),
    "SQ3435": _code(
        "A file of a source's log is damaged or missing. The capture process reads its changes from the server again.",
        "You need not do anything: the sink continues after that.",
        retryable=True,
    ),
    "SQ3436": _code(
        (
            "The log of a source is lost or damaged, and its server no longer has the changes. Reasons are KEEP = "
            "'log', MAX RETAINED WAL, or a binary log that was purged. Requests to a webhook exist only in the "
            "log."
        ),
        (
            f"Restore the log from a copy, or run ALTER SOURCE … SKIP. {_START} "
            "Upsert sinks of a database do a full refresh from the server's current rows. Other sinks "
            "continue with later changes and never get the lost ones."
        ),
        of_loss=True,
    ),
    "SQ3437": _code(
        "The process that captures a source failed with an unexpected error.",
        "SinkQL retries. If the error stays, report it with the detail.",
        retryable=True,
    ),
    "SQ3438": _code(
        (
            "The sink needs a full refresh, which it starts without your help. Reasons are ALTER SOURCE … SKIP, a "
            "truncated table without a key, a lost log, or lost state."
        ),
        "You need not do anything: the sink computes its rows again.",
        retryable=True,
    ),
    "SQ3439": _code(
        (
            "ALTER SOURCE … SKIP needs a full refresh of an upsert sink, but another source no longer has its old "
            "data. The table is unchanged."
        ),
        (
            "Restore the missing data. If you cannot, run ALTER SOURCE … SKIP once more, and start the sink "
            "again. It keeps its rows and reads the source's current rows. Rows that were deleted in between "
            "stay."
        ),
        of_loss=True,
    ),
    "SQ3440": _code(
        (
            "A server did not send all changes of a table. Examples: its publication or replica identity changed, "
            "partitions were attached or detached, the table was UNLOGGED, or ALTER TABLE rewrote values. Sinks "
            "of other tables continue."
        ),
        (
            "Correct the problem on the server that the detail describes. Then run ALTER SOURCE … SKIP, for example "
            f"`ALTER SOURCE shop SKIP;`. {_START} "
            "Upsert sinks do a full refresh from the server's current rows, so nothing is missing afterwards. Append "
            "sinks continue with later changes, and the lost changes are never written to their tables. A commit "
            "just before the error may already lack some of them."
        ),
        of_loss=True,
    ),
    "SQ3441": _code(
        (
            "The object store of LOG or STATE ignores the conditions If-None-Match and If-Match of a put. Without "
            "them, two processes could write the same log or state file."
        ),
        (
            "Use a store that supports them, for example S3. Or create the source or cluster without LOG or "
            "STATE. `sinkql doctor` checks the store."
        ),
    ),
    "SQ3442": _code(
        (
            "Another catalog captures the source into the same log in an object store. It is a copy of this "
            "catalog, or the catalog before a move. The detail names its machine and folder."
        ),
        (
            "Stop the sinks there. If that process ended without notice, this one waits for three minutes and "
            "then continues."
        ),
        retryable=True,
    ),
    "SQ3443": _code(
        (
            "The log of a source has reached MAX LOG SIZE: a sink does not run, or is slower than the source. "
            "SinkQL stops reading from the server, which keeps its changes. A webhook answers with status 429. "
            "All sinks of the source wait."
        ),
        (
            "Start the sinks that the detail names, or drop them. ALTER SOURCE … SET (MAX LOG SIZE = …) raises "
            "the limit. The source then continues."
        ),
        retryable=True,
    ),
    "SQ3444": _code(
        (
            "A sink runs on another host than the capture process, whose log is in a folder of that host. Only "
            "one host can capture a source of a shared catalog."
        ),
        (
            "Run the sink on that host. Or stop the source's sinks there: the source is then captured where the "
            "other sinks run. To run its sinks on any host, create the source with LOG, or in a cluster with a "
            "bucket as STATE."
        ),
        retryable=True,
    ),
    "SQ3450": _code(
        (
            "An append-only sink reads a materialized view that no longer has the next changes. The sink was "
            "stopped for too long, or the view's folder was lost."
        ),
        (
            "Drop the sink and create it again with a new table. Upsert sinks continue, because they compare "
            "their tables with the view. RETAIN HISTORY of the view keeps changes for longer."
        ),
    ),
    "SQ3451": _code(
        "A materialized view no longer has its rows as of an older commit, because no reader asked it to keep them.",
        "You need not do anything: the sink reads the view's current rows.",
        retryable=True,
    ),
    "SQ3452": _code(
        "A file with the rows or the log of a materialized view was truncated or changed.",
        (
            "Restore the file that the message names from a copy. A file of rows can also be deleted: the view's "
            "job then computes the rows again at its next start."
        ),
        retryable=True,
    ),
    "SQ3453": _code(
        (
            "A join needs an index of a materialized view, and the index does not exist for this commit. The "
            "view's job has not built it yet, or has lost it."
        ),
        "Run the view's job. It builds the index, and the sink continues.",
        retryable=True,
    ),
    "SQ3455": _code(
        (
            "A sink with --once reads a materialized view whose job failed. The view does not have all current "
            "rows, so the sink fails too."
        ),
        "Correct the view's error, which the detail shows, and run both again.",
    ),
    "SQ3501": _code(
        (
            "The Iceberg table was rolled back to a snapshot before the sink's last commit. The detail names the "
            "snapshot of that commit, and says whether the table still has it."
        ),
        (
            "If the table still has that snapshot, roll the table forward to it. Otherwise give an upsert sink "
            "EXISTING ROWS = REPLACE in its script, and run sinkql plan with all scripts, then sinkql apply. The sink "
            "keeps the table's name, and readers see one commit with the difference. Create an append sink again "
            "with a new table: REPLACE would first remove all rows of the table."
        ),
        symptoms=("rolled back", "table rolled back", "rollback", "roll forward", "snapshot lost", "restored"),
    ),
    "SQ3502": _code(
        "The file with the sink's offsets, in the metadata folder of its table, is missing or damaged.",
        "Restore the file. Do not remove files from that folder by age.",
    ),
    "SQ3503": _code(
        "The sink's table was dropped, or another table has its name now.",
        "Register the table again from its metadata. Or drop the sink and create it again.",
        retryable=True,
    ),
    "SQ3504": _code(
        "The columns of the table differ from the columns that the sink writes.",
        (
            "Change the view or the table so that names and types agree, or name another table. If a source column "
            "became wider, cast its aggregate in the view to the type of the table, for example sum(n)::bigint."
        ),
    ),
    "SQ3505": _code(
        "The table exists and has another partitioning than the sink.",
        "Write the PARTITION BY of the table, or name another table.",
    ),
    "SQ3506": _code(
        "Another program wrote equality deletes into the table, which an upsert sink cannot follow.",
        "Rewrite the data files of the table with that program, or use a new table.",
    ),
    "SQ3507": _code(
        "The table has rows that the sink did not write.",
        (
            "Name another table. Or write WITH (EXISTING ROWS = KEEP) to add to these rows, or WITH (EXISTING "
            "ROWS = REPLACE) to replace them."
        ),
        symptoms=("existing rows", "create sink again", "table has rows"),
    ),
    "SQ3508": _code(
        (
            "The sink's checkpoint in the table was changed or copied by another program, and no commit of the "
            "sink remains."
        ),
        (
            "Restore the table's property, or drop the sink and create it again with a new table. Other programs "
            "must not write properties whose names begin with `sinkql.`."
        ),
    ),
    "SQ3509": _code(
        "The table exists and has another sort order than SORT BY.",
        (
            "Leave out SORT BY, or name another table. Without SORT BY, the sink uses the table's sort order, if "
            "it sorts by columns alone."
        ),
    ),
    "SQ3510": _code(
        (
            "The table exists and has files that are partitioned by a dropped column. Its metadata no longer has "
            "that column's type, so no commit could keep these files."
        ),
        "Name another table.",
    ),
    "SQ3511": _code(
        (
            "The table exists, and one of its columns has a default value for older rows. If the sink rewrote "
            "such rows, it would lose the value."
        ),
        "Name another table.",
    ),
    "SQ3512": _code(
        "The table exists with a lower format version than the sink needs.",
        "Leave out FORMAT VERSION, upgrade the table with the program that created it, or name a new table.",
    ),
    "SQ3513": _code(
        (
            "The table stores the number of dimensions of an array but not their lengths, so SinkQL cannot show "
            "the array."
        ),
        "Select from the relation that the sink reads.",
    ),
    "SQ3570": _code(
        "DROP SINK … WITH TABLE drops only an empty table, and this table has rows.",
        "Leave out WITH TABLE to keep the table. Or delete the rows first, or drop the table with another program.",
    ),
    "SQ3571": _code(
        (
            "DROP SINK … WITH TABLE drops only a table that the sink created. This table is older than the sink, "
            "or has replaced the sink's table."
        ),
        "Leave out WITH TABLE, and drop the table with the program that created it.",
    ),
    "SQ3572": _code(
        (
            "DROP SINK … WITH TABLE drops no table that others use. Another sink writes to it, a tag keeps one of "
            "its snapshots, or it changed a moment ago."
        ),
        "Leave out WITH TABLE to keep the table.",
    ),
    "SQ3521": _code(
        "The table has a tag with the name of BRANCH. A branch and a tag cannot share a name.",
        "Write another BRANCH, or drop the tag.",
    ),
    "SQ3522": _code(
        "ALTER SINK … PUBLISH finds no branch in the table. The sink has not started yet, or the branch was dropped.",
        "Run the sink, then publish its rows.",
    ),
    "SQ3523": _code(
        (
            "Another writer committed to main after the branch began or was last published. PUBLISH only moves "
            "main forward along the branch, and never discards commits of main."
        ),
        (
            "To discard the commits to main, roll main back, for example with Spark's rollback_to_snapshot, and "
            "publish again. To keep them, drop the sink and create it again with another BRANCH and EXISTING "
            "ROWS. It reads its sources from the start. With EXISTING ROWS = KEEP, an append sink therefore "
            "writes published rows again."
        ),
    ),
    "SQ3524": _code(
        (
            "The Iceberg catalog puts commits to a table's branch on main, as Nessie does. The sink notices this "
            "at its first commit, which has no rows, and stops."
        ),
        (
            "Drop the sink and create it again without BRANCH. The table stays. With Nessie, add the name of a "
            "Nessie branch to the URL of another connection, and write through that connection."
        ),
    ),
    "SQ3460": _code(
        (
            "Two different keys have the same 128-bit hash. This does not happen by chance. The rows' author "
            "knows the secret of the catalog's key hash, or a state file is damaged."
        ),
        "Drop the sink and create it again, with a new table and a new catalog.",
    ),
    "SQ3530": _code(
        "A metadata file, manifest, delete file or data file of the table was truncated, changed or replaced.",
        (
            "Restore the file that the message names from a copy. If it is lost, drop the sink and create it "
            "again with a new table."
        ),
        retryable=True,
    ),
    "SQ3551": _code(
        (
            "The table of an upsert sink has two rows with the same key. Another program writes to it, or the key "
            "is not unique."
        ),
        "Decide which row of the key is right, and delete the other one. Let no other program write to the table.",
    ),
    "SQ3552": _code(
        "The relation of an upsert sink has two rows with the same key.",
        "Use a KEY that identifies each row.",
        of_rows=True,
    ),
    "SQ3553": _code(
        "OPTIMIZE SINK could not compact the table. The detail shows the reason. No row is lost.",
        "Correct the problem in the detail, for example an unreadable file, and run OPTIMIZE SINK again.",
    ),
    "SQ3554": _code(
        "The table has data files in a format other than Parquet.",
        "Rewrite the files as Parquet, or use a new table.",
    ),
    "SQ3555": _code(
        "A deletion vector, which marks the deleted rows of a data file, is damaged.",
        "Restore the file that the message names from a copy. Or drop the table and create the sink again.",
    ),
    "SQ3556": _code(
        "A file of the table that the sink needs is missing.",
        "Restore the file. If it is lost, drop the sink and create it again with a new table.",
        retryable=True,
    ),
    "SQ3710": _code(
        "The connection's user may not read a table of a source. Its other tables continue.",
        "Grant the right on the server.",
        retryable=True,
    ),
    "SQ3711": _code(
        (
            "Before the first snapshot of a table was complete, the server dropped the table, or dropped, renamed "
            "or changed a column. Other tables of the source continue."
        ),
        (
            "Undo the change, or run ALTER SOURCE … REFRESH REFERENCES, and start the sinks again. If the "
            "statement is refused, drop the sinks that read the table."
        ),
    ),
    "SQ3712": _code(
        (
            "Another transaction holds a lock on a table of a source, for example by TRUNCATE or ALTER TABLE. Its "
            "other tables continue."
        ),
        "Wait for the end of that transaction.",
        retryable=True,
    ),
}
