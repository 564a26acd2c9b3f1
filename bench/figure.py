"""The figures that benchmarks report: how they are declared, what was last recorded, and what counts as worse.

figures.toml declares each figure: its command, the work, the unit, the other side and the goal. recorded.json has the
values that `python -m bench.regress --record` measured last.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

REPORTS = "BENCH_FIGURES"
"""The variable that names the file of reported figures."""
LEAST = 0.9
"""The smallest part of a recorded ratio that does not count as worse."""
_DECLARED = Path(__file__).with_name("figures.toml")
_RECORDED = Path(__file__).with_name("recorded.json")


@dataclass(frozen=True, slots=True)
class Measured:
    """A value, and that of the other side in the same run; the day, and a note on the machine's load."""

    value: float
    beside: float | None = None
    on: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that a command reports, and its goals: for its value, and for its ratio to the other side."""

    name: str
    section: str
    command: str
    """A module with its options; empty if no benchmark measures the figure yet."""
    needs_maven: bool
    work: str
    unit: str
    better: str
    """`less` for costs and `more` for rates."""
    beside: str = ""
    wanted: float | None = None
    wanted_ratio: float | None = None

    def ratio(self, measured: Measured) -> float | None:
        """Return how many times better the value is than the other side; None without another side."""
        if not self.beside or measured.beside is None:
            return None
        pair = measured.value, measured.beside
        above, below = pair if self.better == "more" else pair[::-1]
        return above / below if below else float("inf")

    def is_met(self, measured: Measured) -> bool | None:
        """Return whether all goals are reached; None if there is no goal, or if one has no measurement."""
        ratio, found = self.ratio(measured), list[bool | None]()
        if self.wanted is not None:
            found.append(measured.value >= self.wanted if self.better == "more" else measured.value <= self.wanted)
        if self.wanted_ratio is not None:
            found.append(None if ratio is None else ratio >= self.wanted_ratio)
        if False in found:
            return False
        return True if found and None not in found else None

    def is_worse(self, now: Measured, last: Measured) -> bool:
        """Return whether a ratio fell by more than a tenth, or a value without a ratio no longer reaches its goal.

        Absolute values depend on the machine's other work, so only their goals count.
        """
        new, old = self.ratio(now), self.ratio(last)
        if new is not None and old is not None:
            return new < LEAST * old
        return self.is_met(now) is False and self.is_met(last) is True

    def rank(self, measured: Measured) -> float:
        """Return a number that is higher for a better measurement."""
        ratio = self.ratio(measured)
        return ratio if ratio is not None else measured.value * (1 if self.better == "more" else -1)


def declared(text: str | None = None) -> dict[str, Figure]:
    """Return the figures by name, in the order of figures.toml."""
    commands = tomllib.loads(_DECLARED.read_text() if text is None else text)["command"]
    return {
        each["name"]: Figure(
            section=command["section"],
            command=command.get("run", ""),
            needs_maven=command.get("needs_maven", False),
            **each,
        )
        for command in commands
        for each in command["figure"]
    }


def recorded(path: Path = _RECORDED) -> dict[str, Measured]:
    """Return the measurements that were last recorded, by the name of their figure."""
    return {name: Measured(**each) for name, each in json.loads(path.read_text()).items()}


def record(measured: Mapping[str, Measured], path: Path = _RECORDED) -> None:
    """Write measurements as the last ones, a line each."""
    lines = [f"{json.dumps(name)}: {json.dumps(_fields(each))}" for name, each in sorted(measured.items())]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def report(name: str, value: float, beside: float | None = None) -> None:
    """Print a figure; append it to the file that BENCH_FIGURES names. Figures that figures.toml does not have are not
    reported.
    """
    figure = declared().get(name)
    if figure is None:
        return
    measured = Measured(_rounded(value), None if beside is None else _rounded(beside))
    print(f"{name}: {summary(figure, measured)}", flush=True)
    if path := os.environ.get(REPORTS):
        with Path(path).open("a") as file:
            file.write(json.dumps({"name": name, **_fields(measured)}) + "\n")


def summary(figure: Figure, measured: Measured) -> str:
    """Return a measurement in words, its ratio first."""
    ratio, met = figure.ratio(measured), figure.is_met(measured)
    parts = [] if ratio is None else [f"{ratio:.2f} times as good as {figure.beside}"]
    parts.append(f"{number(measured.value)} {figure.unit}")
    if ratio is not None and measured.beside is not None:
        parts[-1] += f", the other {number(measured.beside)}"
    if met is not None:
        parts.append(f"goal {goals(figure)} {'met' if met else 'missed'}")
    return "; ".join(parts)


def goals(figure: Figure) -> str:
    """Return the goals of a figure; empty if it has none."""
    sign = "≥" if figure.better == "more" else "≤"
    found = [] if figure.wanted is None else [f"{sign} {number(figure.wanted)} {figure.unit}"]
    return ", ".join(found + ([] if figure.wanted_ratio is None else [f"≥ {number(figure.wanted_ratio)} times"]))


def number(value: float) -> str:
    """Return a number with about three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _fields(measured: Measured) -> dict[str, Any]:
    return {name: value for name, value in asdict(measured).items() if value not in (None, "")}


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
