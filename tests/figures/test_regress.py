"""The comparison of figures with the recorded ones, and the reports that benchmarks append to a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.figure import Figure, Measured, declared, record, recorded, report
from bench.regress import chosen, failures, measured, run

_COST = Figure("a", "s", "bench.a", False, "w", "ms", "less", "the other")
_RATE = replace(_COST, name="b", command="bench.b", better="more")
_ALONE = replace(_COST, name="c", command="bench.c", beside="", wanted=40)


@pytest.mark.parametrize(
    ("figure", "value", "beside", "ratio"), [(_COST, 10, 40, 4), (_RATE, 40, 10, 4), (_ALONE, 10, None, None)]
)
def test_a_ratio_is_higher_for_a_better_value(
    figure: Figure, value: float, beside: float | None, ratio: float | None
) -> None:
    assert figure.ratio(Measured(value, beside)) == ratio


@pytest.mark.parametrize(("ratio", "worse"), [(2.0, False), (1.81, False), (1.8, False), (1.79, True), (3.0, False)])
@pytest.mark.parametrize("better", ["less", "more"])
def test_a_ratio_is_worse_below_nine_tenths_of_the_recorded_one(ratio: float, worse: bool, better: str) -> None:
    figure = replace(_COST, better=better)
    now, last = ((Measured(1, each) if better == "less" else Measured(each, 1)) for each in (ratio, 2.0))
    assert figure.is_worse(now, last) is worse
    assert bool(failures([figure], {"a": now}, {"a": last})) is worse


def test_only_the_ratio_of_a_figure_with_another_side_counts() -> None:
    figure = replace(_COST, wanted=40)
    assert not figure.is_worse(Measured(80, 160), Measured(40, 80))
    assert figure.is_met(Measured(80, 160)) is False


@pytest.mark.parametrize(("now", "last", "worse"), [(39, 20, False), (41, 40, True), (80, 41, False), (20, 50, False)])
def test_a_value_without_another_side_is_worse_if_it_no_longer_reaches_its_goal(
    now: float, last: float, worse: bool
) -> None:
    assert _ALONE.is_worse(Measured(now), Measured(last)) is worse


@pytest.mark.parametrize(
    ("wanted", "wanted_ratio", "met"),
    [(None, None, None), (100, None, True), (101, None, False), (100, 2, True), (100, 2.1, False), (101, 2, False)],
)
def test_goals_are_met_together(wanted: float | None, wanted_ratio: float | None, met: bool | None) -> None:
    assert replace(_RATE, wanted=wanted, wanted_ratio=wanted_ratio).is_met(Measured(100, 50)) is met


def test_a_goal_without_a_measurement_is_not_met() -> None:
    assert replace(_RATE, wanted=100, wanted_ratio=2).is_met(Measured(100)) is None
    assert replace(_RATE, wanted=101, wanted_ratio=2).is_met(Measured(100)) is False


def test_a_figure_that_is_not_reported_is_a_failure() -> None:
    assert failures([_COST, _RATE], {"b": Measured(1, 2)}, {"a": Measured(1, 2)}) == ["a"]


def test_a_command_with_worse_figures_runs_again_and_the_better_values_count() -> None:
    last = {"a": Measured(1, 2), "b": Measured(2, 1), "c": Measured(10)}
    runs = {
        "bench.a": [{"a": Measured(1, 1)}, {"a": Measured(1, 1.9)}],
        "bench.b": [{"b": Measured(3, 1)}],
        "bench.c": [{"c": Measured(50)}, {"c": Measured(60)}],
    }
    now = measured([_COST, _RATE, _ALONE], last, lambda command: runs[command].pop(0))
    assert now == {"a": Measured(1, 1.9), "b": Measured(3, 1), "c": Measured(50)}
    assert all(not each for each in runs.values())
    assert failures([_COST, _RATE, _ALONE], now, last) == ["c"]


def test_a_figure_that_only_the_second_run_reports_counts() -> None:
    runs: list[dict[str, Measured]] = [{}, {"a": Measured(1, 2)}]
    assert measured([_COST], {"a": Measured(1, 2)}, lambda _: runs.pop(0)) == {"a": Measured(1, 2)}


def test_figures_are_chosen_by_name_or_module_and_those_of_peers_on_demand() -> None:
    peer = replace(_COST, name="d", command="bench.a --with d", needs_maven=True)
    figures = {each.name: each for each in (_COST, _RATE, peer, replace(_COST, name="e", command=""))}
    assert [each.name for each in chosen(figures, [], peers=False)] == ["a", "b"]
    assert [each.name for each in chosen(figures, [], peers=True)] == ["a", "b", "d"]
    assert [each.name for each in chosen(figures, ["a", "d"], peers=True)] == ["a", "d"]
    assert [each.name for each in chosen(figures, ["b"], peers=True)] == ["b"]


def test_a_benchmark_reports_its_figures_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reporting.py").write_text(
        "import sys\n"
        "from bench.figure import report\n"
        "report('exchange upsert', float(sys.argv[1]), 30)\n"
        "report('a figure that nobody declared', 1)\n"
        "report('commit append', 38.5)\n"
        "sys.exit(int(sys.argv[2]))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    for code in (0, 3):
        found = run(f"reporting 10 {code}")
        assert {name: (each.value, each.beside) for name, each in found.items()} == {
            "exchange upsert": (10, 30),
            "commit append": (38.5, None),
        }
        assert all(each.on and each.note for each in found.values())


def test_a_report_is_a_line_that_people_can_read(capsys: pytest.CaptureFixture[str]) -> None:
    report("exchange upsert", 2736, 4873)
    report("commit append", 51)
    report("a figure that nobody declared", 51)
    assert capsys.readouterr().out.splitlines() == [
        "exchange upsert: 1.78 times as good as Spark SQL's shuffle; 2,736 ns a row, the other 4,873",
        "commit append: 51 CPU-ms; goal ≤ 40 CPU-ms missed",
    ]


def test_recorded_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    written = {"b": Measured(1.5), "a": Measured(2.0, 3.0, "2026-11-30", "load 3")}
    record(written, tmp_path / "recorded.json")
    assert recorded(tmp_path / "recorded.json") == written


def test_all_recorded_figures_are_declared() -> None:
    assert sorted(recorded().keys() - declared().keys()) == []
