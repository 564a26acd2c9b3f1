"""ON ERROR of a source → what becomes of its records that do not decode: one way for all sources and formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.extension.options import Tuning, described
from sinkql.extension.stream import RowError, Tally, invalid_row

OnError = Literal["fail", "skip", "dead letter"]
LEFT_OUT = (
    "ALTER SOURCE … SET (ON ERROR = SKIP) leaves such records out and counts them, ON ERROR = DEAD LETTER keeps them "
    "in a table as well; the sink continues when it is started again."
)


@dataclass(frozen=True, slots=True)
class OnErrorOptions(Tuning):
    """The option that each source of records has in its WITH (…)."""

    on_error: Literal["FAIL", "SKIP", "DEAD LETTER"] = described(
        "what happens to invalid records: stop, skip, or also store them in `<table>__errors`",
        default="FAIL",
    )


def on_error(options: Mapping[str, Any]) -> OnError:
    """Return what planned options of a source, or of one of its tables, say; it decides no plan."""
    tuning = options.get("tuning", {})
    kept: OnError = tuning.get("on_error") or tuning.get("keeping", {}).get("on_error", "fail")
    return kept


def keeps_letters(read: physical.Read) -> bool:
    """Tell whether records of a source that do not decode are kept in a table."""
    return on_error(read.options) == "dead letter"


def may_be_late(job: physical.Job, read: physical.Read) -> bool:
    """Tell whether a sink may take a record of a source after others that came later."""
    return job.write.mode == "append" and read.change == "append"


def again_from_source(job: physical.Job, read: physical.Read) -> bool:
    """Tell whether a sink may compute all rows again from a source, for the records that decode by now."""
    return job.renewable and "source_id" not in read.options


@dataclass(frozen=True, slots=True)
class BadRecords:
    """What a reader of `source` does with records that do not decode; `correct` says how such a record is mended."""

    source: str
    policy: OnError
    correct: str = ""

    def take(self, tally: Tally, error: RowError) -> None:
        """Count a record; raises SQ3101 where such records stop the sinks."""
        if self.policy == "fail":
            raise self.failure(error)
        tally.fail(error)

    def failure(self, error: RowError) -> SinkqlError:
        """Return the error of a record that stops the sinks."""
        hint = f"{self.correct} {LEFT_OUT}".strip()
        return invalid_row(self.source, error.position, error.message, error.raw, hint=hint)
