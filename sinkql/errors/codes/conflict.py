"""Error codes of conflicts with other processes."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.CONFLICT)

CODES = {
    "SQ5101": _code(
        "Another run of the sink has claimed the table, so this run can no longer commit.",
        "Nothing is lost: the other run continues from the last commit. Stop the run that you do not need.",
    ),
    "SQ5102": _code(
        "Another sink committed to the table or branch of an upsert sink, which must be its only writer.",
        (
            "Stop or drop one of the two sinks. After a restart, the upsert sink continues from its last commit "
            "and keeps the other sink's rows. With EXISTING ROWS = REPLACE, it replaces them."
        ),
    ),
    "SQ5201": _code(
        "Another process runs the sink.",
        "Stop that process, or take the sink over with --takeover.",
    ),
    "SQ5202": _code(
        "Another process took over the sink, or this process did not renew its lease in time.",
        "Nothing is lost: the other process continues from the last commit.",
    ),
    "SQ5203": _code(
        "Other writers commit to the table so often that the sink's commit always conflicts.",
        "Slow down the other writers. Run ALTER SINK … PUBLISH again, if it failed.",
        retryable=True,
    ),
    "SQ5204": _code(
        "DROP waited for the process that runs the sink, and that process did not stop.",
        "End that process, and run the DROP again.",
    ),
    "SQ5205": _code(
        "Another process created an item that depends on the item of this DROP.",
        "Run the DROP again.",
    ),
    "SQ5206": _code(
        "Another writer, for example a compaction, replaced files of the table each time before a batch could commit.",
        "If the error stays, run the maintenance of the table less often.",
        retryable=True,
    ),
    "SQ5207": _code(
        "A commit that seemed lost reached the catalog.",
        "Nothing is lost: the sink continues after that commit.",
        retryable=True,
    ),
    "SQ5208": _code(
        "Another process is dropping the sink.",
        "Create the sink again to run it.",
    ),
    "SQ5209": _code(
        "The catalog changed after the plan was saved, or the plan is for another catalog.",
        "Create the plan again with sinkql plan.",
    ),
    "SQ5210": _code(
        "Another process changed the catalog during the transaction, so the transaction cannot commit.",
        "Run the transaction again from BEGIN.",
    ),
    "SQ5211": _code(
        "The catalog has running sinks, so a backup cannot be restored now.",
        "Stop sinkql up, or run sinkql stop with the sinks' names. Restore the backup after they have stopped.",
    ),
    "SQ5212": _code(
        "Another user or process stopped or dropped a sink that a program waits for.",
        "If the sink still exists, start it again.",
    ),
    "SQ5213": _code(
        "OPTIMIZE SINK waited for the process that runs the sink, which is busy with a batch or stalled.",
        "Check the status of the sink. It compacts the table after its batch.",
    ),
}
