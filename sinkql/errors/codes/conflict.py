"""Error codes of conflicts with other processes."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.CONFLICT)

CODES = {
    "SQ5101": _code(
        "Another run of the sink has claimed the table, so this one may not commit any more.",
        "Nothing is lost: the other run continues from the last commit. Stop the run that is not wanted.",
    ),
    "SQ5102": _code(
        "An upsert sink is the only writer of its table, or of its branch, and another sink has committed to it since.",
        "Stop or drop one of the two. A sink that starts again continues from its own last commit, and keeps the rows "
        "of the other one; one that was to replace what is in the table (EXISTING ROWS = REPLACE) replaces those too.",
    ),
    "SQ5201": _code(
        "Another process runs the sink.",
        "Stop that process, or take the sink over with --takeover.",
    ),
    "SQ5202": _code(
        "Another process has taken the sink over, or this one did not renew its lease in time.",
        "Nothing is lost: the other process continues from the last commit.",
    ),
    "SQ5203": _code(
        "Other writers commit to the table so often that the commit of the sink never fits in between.",
        "A running sink tries again by itself; ALTER SINK … PUBLISH has to be run again. If that does not help, slow "
        "the other writers down.",
        retryable=True,
    ),
    "SQ5204": _code(
        "DROP waited for the process that runs the sink, which did not stop.",
        "End that process, and run the DROP again.",
    ),
    "SQ5205": _code(
        "Another process created an item that uses what is being dropped.",
        "Run the DROP again.",
    ),
    "SQ5206": _code(
        "Another writer, such as a compaction, replaced files of the table each time that a batch was about to commit.",
        "A running sink tries again by itself. If that does not help, let the maintenance of the table run less often.",
        retryable=True,
    ),
    "SQ5207": _code(
        "A commit that had seemed lost arrived after all.",
        "Nothing is lost: the sink continues after that commit by itself.",
        retryable=True,
    ),
    "SQ5208": _code(
        "Another process is dropping the sink.",
        "Create the sink again to run it.",
    ),
    "SQ5209": _code(
        "The catalog has changed since the plan was saved, or the plan was made for another catalog.",
        "Make the plan again with sinkql plan.",
    ),
    "SQ5210": _code(
        "Another process changed the catalog during the transaction, so it cannot be committed.",
        "Run the transaction again from BEGIN.",
    ),
    "SQ5211": _code(
        "A copy of the catalog cannot be put back while sinks of the catalog are running.",
        "Stop sinkql up, or run sinkql stop with their names; restore the copy once they have stopped.",
    ),
    "SQ5212": _code(
        "A sink that a program waits for was stopped or dropped by somebody else.",
        "Start the sink again, if it is still there.",
    ),
    "SQ5213": _code(
        "OPTIMIZE SINK waited for the process that runs the sink, which is busy with a batch, or stalled.",
        "Look at the status of the sink. The table is compacted once its batch is done.",
    ),
}
