"""What a batch read and wrote → an account of all records, which has to come out before the batch commits.

read = written + removed + superseded + filtered + dropped + failed. That each record is a row, is none (dropped) or
failed, each task proves (`Tally.settle`); what becomes of the rows is proven here, where no operator makes others of
them. How many a WHERE leaves out is what does not reach the sink; where rows are put together, as by GROUP BY, and
where those that come and go are added up, there is no such account.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.engine import Outcome


@dataclass(frozen=True, slots=True)
class Account:
    """How many records a batch read, and what became of them; `stale` keys may keep an older row for one that failed.

    `written` rows came, `removed` ones only went. Of those that are `superseded` a later one has the key.
    """

    read: int = 0
    written: int = 0
    removed: int = 0
    superseded: int = 0
    filtered: int = 0
    dropped: int = 0
    failed: int = 0
    stale: int = 0

    def counts(self) -> dict[str, int]:
        """Return all but the rows written, by name."""
        return {name: count for name, count in asdict(self).items() if name != "written"}


def account(job: physical.Job, outcome: Outcome) -> Account:
    """Return the account of a batch; raises SQ3392 where it does not come out."""
    tallies, results = outcome.tallies, outcome.results
    rows, removed = sum(each.rows for each in results), sum(each.removed for each in results)
    superseded = sum(each.superseded or 0 for each in results)
    operators = physical.walk(job.write.input)
    given = sum(tallies[each.source].given for each in operators if isinstance(each, physical.Read))
    filtered = 0
    if _kept(job, outcome):
        filtered = given - rows - superseded
        if filtered < 0 or (filtered and not any(_filters(each) for each in operators)):
            raise SinkqlError(
                "SQ3392",
                f'sink "{job.sink}" was given {given} rows, and not all of them can be accounted for',
                detail=f"{rows} were taken, and {superseded} have a later one of their key",
            )
    return Account(
        read=sum(tally.rows for tally in tallies.values()),
        written=rows - removed,
        removed=removed,
        superseded=superseded,
        filtered=filtered,
        dropped=sum(tally.dropped for tally in tallies.values()),
        failed=sum(tally.failed for tally in tallies.values()),
        stale=sum(tallies[read.source].failed for read in job.reads() if read.change == "upsert"),
    )


def _kept(job: physical.Job, outcome: Outcome) -> bool:
    """Tell whether each row that was read comes to the sink as one, unless a WHERE leaves it out."""
    operators = physical.walk(job.write.input)
    return (
        job.write.change != "retract"
        and not outcome.settled
        and not any(isinstance(each, physical.Stateful) for each in operators)
        and all(each.superseded is not None for each in outcome.results)
    )


def _filters(operator: physical.Operator) -> bool:
    """Tell whether rows may end at an operator."""
    return isinstance(operator, physical.Map) and operator.where is not None
