"""The frame of a window function → its SQL."""

from __future__ import annotations

from sinkql import logical, physical
from sinkql.logical.type import INTERVAL


def frame_sql(frame: logical.Frame | physical.Frame | None) -> str:
    """Return a frame with a space before it; nothing for the one that a window has without a word."""
    if frame is None:
        return ""
    start, end = _bound(frame.start.offset, "PRECEDING"), _bound(frame.end.offset, "FOLLOWING")
    exclude = "" if frame.exclude == "no others" else f" EXCLUDE {frame.exclude.upper()}"
    return f" {frame.unit.upper()} BETWEEN {start} AND {end}{exclude}"


def _bound(offset: int | str | None, end: str) -> str:
    if offset is None:
        return f"UNBOUNDED {end}"
    if not offset:
        return "CURRENT ROW"
    text = str(offset)
    side, shown = "PRECEDING" if "-" in text else "FOLLOWING", text.replace("-", "")
    if " " in shown:
        months, days, micros = map(int, shown.split())
        shown = f"'{logical.literal(logical.Interval(months, days, micros), INTERVAL).text}'"
    return f"{shown} {side}"
