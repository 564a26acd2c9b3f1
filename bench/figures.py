"""Write FIGURES.md, the page of figures, from figures.toml and recorded.json.

python -m bench.figures
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from bench.figure import Figure, Measured, declared, goals, number, recorded

_PAGE = Path(__file__).with_name("FIGURES.md")
_HEAD = """# Figures

The required figures, the measured ones, and the commands that measure them. `python -m bench.figures` writes this page.

* A ratio compares SinkQL with another program or another way of the same work, in one run on one machine. Higher is
  better: 2 means half the cost, or twice the rate.
* Costs and rates are the CPU time of all processes, unless a line says otherwise. The machine has two cores. A load
  above 2 means that it did other work at the same time. Ratios are little affected.
* `make soak` runs `python -m bench.regress`. It measures again what needs no other system, and fails if a ratio is less
  than 0.9 of the recorded one. `--peers` adds the other commands, and `--record` writes new values.
"""
_COLUMNS = ("ratio", "", "work", "measured", "the other", "goal", "recorded")


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    write()


def write() -> None:
    """Write the page."""
    _PAGE.write_text(text(declared(), recorded()))


def text(figures: Mapping[str, Figure], last: Mapping[str, Measured]) -> str:
    """Return the page as Markdown."""
    lines = [_HEAD]
    for section in dict.fromkeys(each.section for each in figures.values()):
        lines += [f"## {section}\n", _line(_COLUMNS), "|" + "---|" * len(_COLUMNS)]
        lines += [_row(each, last.get(each.name)) for each in figures.values() if each.section == section]
        lines.append("")
    lines.append("## Commands\n")
    lines.append("Those in the second list download other systems with Maven the first time.\n")
    for needs_maven in (False, True):
        found = dict.fromkeys(each.command for each in figures.values() if each.needs_maven == needs_maven)
        lines += ["```sh", *(f"python -m {each}" for each in found if each), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def _row(figure: Figure, measured: Measured | None) -> str:
    command = f"`{figure.command.split()[0]}`" if figure.command else "no command yet"
    work = f"{figure.work} ({command})"
    if measured is None:
        return _line(("", "not measured", work, "", figure.beside, goals(figure), ""))
    ratio, met = figure.ratio(measured), figure.is_met(measured)
    return _line(
        (
            "" if ratio is None else f"**{ratio:.2f}**",
            "" if met is None else "met" if met else "missed",
            work,
            f"{number(measured.value)} {figure.unit}",
            figure.beside if measured.beside is None else f"{figure.beside}: {number(measured.beside)}",
            goals(figure),
            ", ".join(filter(None, (measured.on, measured.note))),
        )
    )


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
