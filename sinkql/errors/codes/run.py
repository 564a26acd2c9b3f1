"""Error codes of failures of a job while it runs."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.RUN)
_SKIP = (
    "Run ALTER SOURCE … SKIP, and start the sinks again: upsert sinks compute their rows again from what the server "
    "has now, others go on with what comes from then on."
)

CODES = {
    "SQ3001": _code(
        "A batch failed for a reason that SinkQL has no code for.",
        (
            "Read the detail, and spark.log in the folder of the cluster in .sinkql/sinks/spark. The sink continues "
            "where it stopped when it is started again; if the error stays, report it."
        ),
    ),
    "SQ3101": _code(
        "A source reads a row that does not fit its format or its columns.",
        "Correct the record where it comes from, if it is read again then, as files are. A source of a database that "
        "is created WITH (TEXT COLUMNS (…)) reads the column as text, with values such as NaN. Otherwise run ALTER "
        "SOURCE … SET (ON ERROR = SKIP), which leaves such records out and counts them, or SET (ON ERROR = DEAD "
        "LETTER), which keeps them in a table of their own as well.",
    ),
    "SQ3102": _code(
        (
            "A file is not of its source's format: its header does not have the columns of the source, or it is "
            "compressed and damaged, cut off or empty. No row of it was written."
        ),
        (
            "If it is the source that is wrong, create it with the FORMAT and the columns of its files. Else put a "
            "correct file in its place, under any name, or move it out of the folder to go on without its rows: "
            "a file that is put there later is read then. Start the sink again."
        ),
    ),
    "SQ3151": _code(
        "A row has a value that the column of the Iceberg table cannot take, such as NULL in a required column.",
        "Filter such rows out in the view, or convert the value, for instance with COALESCE.",
        of_rows=True,
    ),
    "SQ3201": _code(
        (
            "An expression fails on a row, for instance by division by zero or a value out of range. The detail "
            "shows the row."
        ),
        (
            "Guard the expression with NULLIF or CASE, as in CASE WHEN x ~ '^[0-9]{1,9}$' THEN x::integer END, by "
            "CREATE OR REPLACE MATERIALIZED VIEW; where a sink does not support this change, create another view, and "
            "another sink of it into a new table. Or correct the row: once a row of a table has been changed or "
            "deleted, the sink continues when it is started again. Such rows cannot be skipped (ON ERROR is an option "
            "of sources only): without them the table would not be what the view says."
        ),
        of_rows=True,
    ),
    "SQ3211": _code(
        "The sum of a group is larger than its type.",
        "Cast the argument to numeric, or to a numeric with fewer fraction digits.",
        of_rows=True,
    ),
    "SQ3212": _code(
        "A subquery that is used as one value gave more than one row.",
        "Aggregate in it, as in SELECT max(x) …, or compare with more of its columns, so that one row is left.",
        of_rows=True,
    ),
    "SQ3213": _code(
        "The clock of this machine is a minute or more behind the time of the sink's last commit, which may have been "
        "made on another one. mz_now() never goes back, so the sink commits nothing meanwhile.",
        "Set the clock, for instance by NTP. The sink goes on by itself as soon as it is that time.",
        retryable=True,
    ),
    "SQ3301": _code(
        (
            "A file has changed since it was listed. Each file is read once, so the changed part would be lost "
            "or read twice. The detail says what is different now; no row of the changed file was written."
        ),
        "Restore the old file, and write new rows into a new file.",
    ),
    "SQ3302": _code(
        "A file was removed before all of it was read.",
        "Put the file back. The sink tries again by itself.",
        retryable=True,
    ),
    "SQ3303": _code(
        (
            "The list of the files that were read is missing or damaged, both in the state folder of the sink "
            "and beside the table."
        ),
        "Restore one of the two folders from a backup, or drop the sink and create it again, into a new table.",
    ),
    "SQ3304": _code(
        "The folder of a files source does not exist or cannot be read.",
        "Create the folder or correct its permissions: the sink tries again by itself. If PATH is wrong, correct it in "
        "the script, and run sinkql apply with all scripts.",
        retryable=True,
    ),
    "SQ3305": _code(
        (
            "Something in the folder of a files source cannot be read: a named pipe, a socket, a link to a file that "
            "does not exist, a file without permission or on a broken disk, or a name that is not UTF-8."
        ),
        "Correct or move it, or leave it out by GLOB. The sink tries again by itself.",
        retryable=True,
    ),
    "SQ3306": _code(
        "The list of the files that were read cannot be written to the state folder: the disk is full or read-only.",
        "Free space on the disk or correct the permissions of .sinkql. The sink tries again by itself.",
        retryable=True,
    ),
    "SQ3307": _code(
        "The bucket of a files source, of a log, or of STATE of a cluster, does not exist.",
        "Correct PATH, or ENDPOINT of the AWS connection, or create the bucket. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ3308": _code(
        "The keys or the role of an AWS connection may not list the bucket of a files source, of a log or of STATE of "
        "a cluster, or not read its objects; those of a log or of state may not write them.",
        "Allow them s3:ListBucket on the bucket and s3:GetObject on its objects, for a log or state s3:PutObject and "
        "s3:DeleteObject, too. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ3370": _code(
        "Kafka deleted messages of a topic before they were read, or those that rows are to be computed again from.",
        "Run ALTER SOURCE … SKIP to go on with what is kept, and start the sink again. Raise the topic's retention.",
        of_loss=True,
    ),
    "SQ3371": _code(
        "The topic of a source was deleted, or made anew under its name: the offsets that were read mean other "
        "messages now.",
        "Run ALTER SOURCE … SKIP to read the topic that is there from its beginning, and start the sink again.",
        of_loss=True,
    ),
    "SQ3372": _code(
        "A partition of a topic ends before the messages that were read of it, or has others in their place: its "
        "brokers have lost some, or were put back from a copy.",
        "Run ALTER SOURCE … SKIP to go on where the partition ends, or with the messages that are later than the last "
        "one that was read, and start the sink again.",
        of_loss=True,
    ),
    "SQ3390": _code(
        "A connector gives rows with other columns than its source declares.",
        "This is a mistake in the connector; report it to its author.",
    ),
    "SQ3391": _code(
        "A part of a source gave different rows when a failed task read it again, so the batch was not committed.",
        "Make sure that what the source reads does not change, then start the sink again.",
    ),
    "SQ3392": _code(
        "A reader or a writer lost or doubled records: those that were read are not all accounted for. Nothing of the "
        "batch was written.",
        "This is a mistake in SinkQL or in a connector; report it. The table is as it was before the batch.",
    ),
    "SQ3393": _code(
        "A source keeps its records that do not decode, and the sink writes to a system that has no table for them.",
        "Run ALTER SOURCE … SET (ON ERROR = SKIP) or FAIL, or write to Iceberg or Kafka.",
    ),
    "SQ3394": _code(
        "REPLAY ERRORS cannot put records of this source in: what is kept of them is not all that they were, they are "
        "changes of rows that may have changed again since, or the sink cannot take a record late.",
        "Correct the records where they come from, and have them sent or written once more.",
    ),
    "SQ3401": _code(
        "A source takes back a row that it never gave, so an aggregate would be wrong.",
        "Check that the source is read from its beginning, and that each of its changes has the row from before.",
    ),
    "SQ3402": _code(
        "A file that lists the state of a sink is missing from its state folder.",
        "Restore the folder, or drop the sink and create it again, into a new table.",
    ),
    "SQ3403": _code(
        "A file that lists the state of a sink is damaged, or was written by another version of SinkQL.",
        "Restore the folder, or run the version of SinkQL that wrote it.",
    ),
    "SQ3404": _code(
        "A file with state of a sink is missing or damaged.",
        "Restore the state folder, or drop the sink and create it again, into a new table.",
    ),
    "SQ3405": _code(
        "What a task of a stateful operator had to tell did not arrive, so the batch was not committed.",
        "Usually nothing: the sink tries the batch again. If the error stays, see spark.log in the cluster's folder.",
        retryable=True,
    ),
    "SQ3406": _code(
        "Two attempts of the same task gave different results, so the batch was not committed.",
        "Usually nothing: the sink tries the batch again. If the error stays, the input changes while it is read.",
        retryable=True,
    ),
    "SQ3407": _code(
        "Rows were sent to the wrong task of a stateful operator, so the batch was not committed.",
        "This is a mistake in SinkQL; report it.",
    ),
    "SQ3408": _code(
        "The state of the sink is divided into another number of buckets than the job expects.",
        "Restore the state folder, or drop the sink and create it again, into a new table.",
    ),
    "SQ3409": _code(
        "A task would write a file of state whose name is already taken.",
        "Start the sink again. If the error stays, report it.",
    ),
    "SQ3410": _code(
        (
            "The sink no longer computes what it did when the table was last written, so its state and its table "
            "do not fit it."
        ),
        "Drop the sink and create it again, into a new table.",
    ),
    "SQ3411": _code(
        "A file of the key index, which an upsert sink keeps of its table, is damaged.",
        "Start the sink again; it rebuilds the index from the table.",
    ),
    "SQ3412": _code(
        "The file that says how far a source was read is missing, both in the state folder and beside the table.",
        "Restore the file, or drop the sink and create it again, into a new table.",
    ),
    "SQ3413": _code(
        (
            "A sink got a column of a table for which the rows that it had written already had values: they were "
            "inserted while the change was made."
        ),
        "Drop the sink and create it again, into a new table.",
    ),
    "SQ3414": _code(
        (
            "A row of a table has a value that the column could not hold when the sink was started: the column has got "
            "a wider type since then. No row of the batch was written."
        ),
        "The sink continues with the new type by itself. If it was started with --once, run it again.",
        retryable=True,
    ),
    "SQ3415": _code(
        (
            "The rows of an upsert sink are to be computed again from the beginning of its sources, for what it "
            "computes has changed, and a source no longer has all that was read from it, or began at its end. "
            "The table stays as it was."
        ),
        (
            "Put back what the message says is missing, change the sink back, or drop it and create it again, into a "
            "new table."
        ),
    ),
    "SQ3416": _code(
        (
            "All rows of a source were removed at once, as TRUNCATE does. Its rows have no key, so a sink that appends "
            "changes, or writes them to Kafka, does not know which rows it has to take back. Upsert sinks compute "
            "their rows again by themselves."
        ),
        "Drop the sink and create it again, into a new table or topic. Where the table is emptied often, write an "
        "upsert sink, or give the table a primary key.",
    ),
    "SQ3417": _code(
        (
            "A server leaves values out of changes that did not change them, as Postgres does with long ones, and the "
            "sink does not have the row from before. Its state was lost, or the source was not read from its beginning."
        ),
        "Drop the sink and create it again, into a new table. With REPLICA IDENTITY FULL, Postgres sends all values.",
    ),
    "SQ3420": _code(
        "The file with the rows of a table is missing or damaged, or cannot be read or written.",
        "Fix what the detail says, or put the file back from a backup.",
    ),
    "SQ3421": _code(
        (
            "The file of a table does not have the changes that a sink has read from it, as after an older backup was "
            "restored. Going on would leave rows out, or keep rows that are no longer there."
        ),
        (
            "Put the newer file back, or drop the sink and create it again, into a new table. `sinkql catalog restore` "
            "puts copies back in a way that sinks can follow."
        ),
    ),
    "SQ3422": _code(
        "A job that was made by sinkql compile reads a table, whose rows are in a catalog.",
        "Create the table with sinkql exec, and run the sink from that catalog.",
    ),
    "SQ3430": _code(
        "A job that was made by sinkql compile reads a source that a process of a catalog captures.",
        "Create the source with sinkql exec, and run the sink from that catalog.",
    ),
    "SQ3431": _code(
        (
            "A sink waits for the process that captures its source, which did not answer for a minute: it cannot reach "
            "the server, or the machine or the server is overloaded."
        ),
        "The sink tries again by itself. SELECT * FROM mz_internal.mz_source_statuses says what the source waits for.",
        retryable=True,
    ),
    "SQ3432": _code(
        "A table was truncated on the server, and its source was created WITH (ON TRUNCATE = FAIL).",
        (
            "Run ALTER SOURCE … SET (ON TRUNCATE = APPLY) to have the tables of its sinks emptied too, and start the "
            "sinks again."
        ),
    ),
    "SQ3433": _code(
        "A table on the server lost a column that a sink needs, or has it under another name or with another type.",
        (
            "Run ALTER SOURCE … REFRESH REFERENCES, and start the sinks again: they take up what they can follow, such "
            "as a column less. If it is refused, drop the sinks of the table first, and create them again into new "
            "tables. Columns that no sink needs can be left out with EXCLUDE COLUMNS, and may change then. Where the "
            "table is as it was by now, such as with a column that was dropped and added again, run ALTER SOURCE … "
            "SKIP: upsert sinks then compute their rows again."
        ),
        of_loss=True,
    ),
    "SQ3434": _code(
        (
            "The log of a source does not have the changes that follow those in a sink's table: the log was deleted, "
            "or the server had forgotten them. Or it was lost just after the first snapshot of a table without a key, "
            "and nobody knows which of the changes that follow the snapshot has. Going on would leave changes out, or "
            "take them in twice."
        ),
        _SKIP,
        of_loss=True,
    ),
    "SQ3435": _code(
        "A file of a source's log is damaged or gone. The source's capture reads it again from the server.",
        "Nothing: the sink continues by itself once that is done.",
        retryable=True,
    ),
    "SQ3436": _code(
        (
            "The log of a source is lost or damaged, and the server no longer has all that its sinks need of it: "
            "the source has KEEP = 'log', or the server had kept more than MAX RETAINED WAL. Of MySQL, the binary log "
            "no longer goes back to where the sinks are; of a webhook, the requests that sinks have not read are gone."
        ),
        f"Put the log back from a copy, or r{_SKIP[1:]}",
        of_loss=True,
    ),
    "SQ3437": _code(
        "The process that captures a source failed for a reason that SinkQL has no code for.",
        "It tries again by itself. If it goes on, report the detail.",
        retryable=True,
    ),
    "SQ3438": _code(
        "A user ran ALTER SOURCE … SKIP while a sink of the source ran, a table without a key was truncated on its "
        "server, or the log of a source was lost just after the first snapshot of one. Or the state of a sink is lost, "
        "and only the server still has the rows that it was made of.",
        "Nothing: the sink computes its rows again by itself.",
        retryable=True,
    ),
    "SQ3439": _code(
        "Changes of a source were skipped, and the rows of an upsert sink cannot be computed again without them, as "
        "another source that the sink reads no longer has what was read from it. The table stays as it was.",
        "Put back what is missing. If that cannot be, run ALTER SOURCE … SKIP once more, and start the sink again: it "
        "keeps its rows, and reads those of the source as they are now. Rows that were deleted meanwhile stay.",
        of_loss=True,
    ),
    "SQ3440": _code(
        (
            "A server has not sent all changes of a table: its publication was altered, its replica identity has "
            "changed, partitions were attached with rows, detached, or emptied by themselves, the table was UNLOGGED, "
            "or ALTER TABLE or ALTER TYPE gave rows other values. Or the table was altered, or may not be read "
            "any more, just when long values that are not sent again had to be read from it. Sinks of other "
            "tables go on."
        ),
        f"Fix on the server what the detail says, if anything. Then {_SKIP[0].lower()}{_SKIP[1:]}",
        of_loss=True,
    ),
    "SQ3441": _code(
        "The object store that LOG of a source or STATE of a cluster names does not keep to the conditions "
        "If-None-Match and If-Match of a put. Without them two captures of one source might both write its log, or two "
        "runs of a sink one file of its state.",
        "Name a store that has them, such as S3, or create the source or the cluster without LOG or STATE. `sinkql "
        "doctor` tries the store.",
    ),
    "SQ3442": _code(
        "Another catalog captures the source into the same log in an object store: a copy of the catalog on another "
        "machine, or the one that it was moved from. The detail names its machine and folder.",
        "Stop the sinks there. A capture that ended without saying so is waited for three minutes; then this one goes "
        "on by itself.",
        retryable=True,
    ),
    "SQ3443": _code(
        "The log of a source has MAX LOG SIZE bytes that sinks must still read: a sink does not run, or is slower than "
        "the source. Nothing more is read from the server, which keeps it, and a webhook refuses requests with status "
        "429. Sinks that have read everything wait, too.",
        "Start the sinks that the detail names, or drop those that are not needed any more. ALTER SOURCE … SET (MAX "
        "LOG SIZE = …) makes more room. The source goes on by itself then.",
        retryable=True,
    ),
    "SQ3444": _code(
        "A sink runs on another host than the process that captures its source, whose log is in a folder of that host. "
        "One host at a time captures a source of a catalog that several share.",
        "Run the sink on that host, or stop the sinks of the source there: then it is captured where the others run. "
        "Create the source IN CLUSTER of one that has a bucket as STATE, or with LOG, to run its sinks on any host.",
        retryable=True,
    ),
    "SQ3450": _code(
        "A sink that only adds rows reads a materialized view, and the view no longer has the changes that come next: "
        "the sink did not run until there were more changes than the view has rows, or the view's folder was lost.",
        "Drop the sink and create it again, into a new table. Upsert sinks go on by themselves: they compare their "
        "tables with the view. RETAIN HISTORY of the view keeps changes for longer.",
    ),
    "SQ3451": _code(
        "The rows of a materialized view as of a commit are gone: it has had others since, and nobody had them kept.",
        "Nothing has to be done: the sink reads the view as it is now.",
        retryable=True,
    ),
    "SQ3452": _code(
        "A file with the rows, or the log, of a materialized view was cut off or changed.",
        "Put the file that the message names back from a copy. Or delete it, if it is one of rows: the view's job "
        "computes them again at its next start.",
        retryable=True,
    ),
    "SQ3453": _code(
        "A join looks up rows in an index of a materialized view, and the index is not there as of the commit that is "
        "read: the job of the view has not made it yet, or has lost it.",
        "Nothing has to be done while the job of the view runs: it makes the index, and the sink goes on.",
        retryable=True,
    ),
    "SQ3455": _code(
        "A sink that is run once, as by exec --once, reads a materialized view whose job has failed: the view does not "
        "have all rows that there are now, so the sink fails too.",
        "Correct what the error of the view says, which the detail has, and run both again.",
    ),
    "SQ3501": _code(
        "The Iceberg table was rolled back to a snapshot from before the last commit of the sink.",
        "Roll the table forward again, or drop the sink and create it again, into a new table.",
    ),
    "SQ3502": _code(
        "The file with the offsets of the sink, in the metadata folder of its table, is missing or damaged.",
        "Restore the file. Do not remove files from the folder by age.",
    ),
    "SQ3503": _code(
        "The table that the sink has written to was dropped, or replaced by another table of the same name.",
        "Register the table again from its metadata: a running sink goes on by itself. Or drop the sink and create it "
        "again.",
        retryable=True,
    ),
    "SQ3504": _code(
        "The columns of the table are not those that the sink writes.",
        "Change the view or the table so that names and types agree, or name another table.",
    ),
    "SQ3505": _code(
        "The table is there already, and is not partitioned as the sink says.",
        "Write the PARTITION BY that the table has, or name another table.",
    ),
    "SQ3506": _code(
        "Another program wrote equality deletes into the table, which an upsert sink cannot follow.",
        "Rewrite the data files of the table with that program, or use a new table.",
    ),
    "SQ3507": _code(
        "The table has rows that the sink did not write.",
        (
            "Name another table, or write WITH (EXISTING ROWS = KEEP) to keep the rows and add to them, or WITH "
            "(EXISTING ROWS = REPLACE) to put the rows of the sink in their place."
        ),
    ),
    "SQ3508": _code(
        (
            "What the table says of the sink is a copy that another program made or changed, and no commit of the sink "
            "itself is left to tell how far it is."
        ),
        (
            "Put the property of the table back as it was, or drop the sink and create it again, into a new table. Let "
            "other programs leave properties whose names begin with sinkql. out of their commits."
        ),
    ),
    "SQ3509": _code(
        "The table is there already, and has another sort order than SORT BY says.",
        (
            "Leave out SORT BY, or name another table. Without it, files are sorted as the table says, if its order is "
            "one of columns alone."
        ),
    ),
    "SQ3510": _code(
        (
            "The table is there already and has files that were partitioned by a column that was dropped since. Its "
            "metadata does not say the type of that column any more, so that no commit could keep those files."
        ),
        "Name another table.",
    ),
    "SQ3511": _code(
        (
            "The table is there already, and a column of it has a default value, which rows from before the column was "
            "added have in place of NULL. A sink that writes such rows again would lose it."
        ),
        "Name another table.",
    ),
    "SQ3512": _code(
        "The table is there already, and has a lower format version than the sink needs or asks for.",
        "Leave FORMAT VERSION out, upgrade the table with the program that made it, or let the sink create another.",
    ),
    "SQ3513": _code(
        "A table says of an array of several dimensions how many it has, but not how long each is, so that the array "
        "cannot be shown as it was.",
        "Select from what the sink reads.",
    ),
    "SQ3570": _code(
        "DROP SINK … WITH TABLE drops only a table that has no rows, and the table has some.",
        "Leave out WITH TABLE, which keeps the table. Or delete the rows first, or drop the table by another program.",
    ),
    "SQ3571": _code(
        "DROP SINK … WITH TABLE drops only a table that the sink has made, and the table was there before the sink, "
        "or is another one by now.",
        "Leave out WITH TABLE, and drop the table by the program that made it.",
    ),
    "SQ3572": _code(
        "DROP SINK … WITH TABLE drops no table that others use: another sink has written to it or is to, a tag keeps a "
        "snapshot of it, or it was changed just now.",
        "Leave out WITH TABLE, which keeps the table.",
    ),
    "SQ3521": _code(
        "The table has a tag of the name that BRANCH gives. A branch and a tag cannot share a name.",
        "Write another BRANCH, or drop the tag.",
    ),
    "SQ3522": _code(
        "ALTER SINK … PUBLISH finds no branch in the table: the sink has not been started yet, or somebody has dropped "
        "the branch.",
        "Run the sink, and publish what it has written.",
    ),
    "SQ3523": _code(
        (
            "After the branch had begun, or was last published, somebody committed to main. Publishing moves main "
            "forward along the branch, and never gives up commits that only main has."
        ),
        (
            "To give up what was committed to main, set main back to the snapshot before it, for instance with Spark's "
            "rollback_to_snapshot, and publish again. To keep it, drop the sink and create it again with another "
            "BRANCH, which begins where main is now, and with EXISTING ROWS. It reads its sources from the start: with "
            "EXISTING ROWS = KEEP, an append sink writes rows that have been published once more."
        ),
    ),
    "SQ3524": _code(
        "The Iceberg catalog puts commits to a branch of a table on main, as Nessie does, whose branches are of the "
        "whole catalog. The first commit of a run, which has no rows, shows it, and the sink stops there.",
        "Drop the sink and create it again without BRANCH; the table is left. With Nessie, add the name of one of its "
        "branches to the URL of another connection, and write through that.",
    ),
    "SQ3460": _code(
        "Two keys that differ have the same hash of 128 bits. That does not happen by chance: whoever wrote the rows "
        "knows the secret that the catalog hashes keys with, or a file of the sink's state is damaged.",
        "Drop the sink and create it again, into a new table, with a new catalog.",
    ),
    "SQ3530": _code(
        "A metadata file, manifest, delete file or data file of the table was cut off or changed, or another file is "
        "in its place.",
        "Put the file that the message names back from a copy: a running sink tries again by itself. If it is lost for "
        "good, drop the sink and create it again, into a new table.",
        retryable=True,
    ),
    "SQ3551": _code(
        (
            "The table of an upsert sink has two rows with the same key, because another program writes to it "
            "or the key is not unique."
        ),
        "Find out which row of the key is right, delete the other one, and let the sink be the only writer.",
    ),
    "SQ3552": _code(
        "The relation of an upsert sink has two rows with the same key.",
        "Use a KEY that identifies each row.",
        of_rows=True,
    ),
    "SQ3553": _code(
        "OPTIMIZE SINK could not put files of the table together; the detail says why. No row is lost.",
        "Fix what the detail says, such as a file that cannot be read, and run OPTIMIZE SINK again.",
    ),
    "SQ3554": _code(
        "The table has data files in a format other than Parquet.",
        "Rewrite the files as Parquet, or use a new table.",
    ),
    "SQ3555": _code(
        "A deletion vector, which says which rows of a data file are dead, is not what was written.",
        "Put the file that the message names back from a copy, or drop the table and create the sink again.",
    ),
    "SQ3556": _code(
        "A file of the table that the sink has to read is missing.",
        "Restore the file: a running sink tries again by itself. If it is lost for good, drop the sink and create it "
        "again, into a new table.",
        retryable=True,
    ),
    "SQ3710": _code(
        "The user of a connection may not read a table of a source.",
        "Grant the right on the server. The source tries again by itself; its other tables go on.",
        retryable=True,
    ),
    "SQ3711": _code(
        "A table of a source was dropped on the server before its first snapshot was done, or a column of it was "
        "dropped, renamed or changed. Other tables of the source go on.",
        "Put it back, or run ALTER SOURCE … REFRESH REFERENCES, and start the sinks again. If it is refused, drop the "
        "sinks that read the table.",
    ),
    "SQ3712": _code(
        "Another transaction holds a lock on a table of a source, such as that of TRUNCATE or ALTER TABLE.",
        "Wait for its end. The source tries again by itself; its other tables go on.",
        retryable=True,
    ),
}
