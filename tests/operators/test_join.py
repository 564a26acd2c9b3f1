"""Joins: after every batch the table is what the view's SQL gives, whatever came and went on which side."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from operators.joined import CHAIN, KINDS, Case, batch, chain
from operators.pipeline import Pipeline
from sinkql import physical


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("safe", [False, True])
def test_after_every_batch_a_join_is_what_its_sql_gives(kind: physical.JoinKind, safe: bool, tmp_path: Path) -> None:
    case = Case(kind, safe=safe)
    check(case, tmp_path, f"{kind}{safe}")


def check(case: Case, folder: Path, seed: str) -> None:
    rng = random.Random(seed)
    pipeline = Pipeline(folder, case.view)
    for size in (3, 0, 12, 1, 20, 5, 8, 2, 15, 1):
        pipeline.batch(**batch(rng, [pipeline.inputs[name] for name in "lr"], case, size))
        assert pipeline.expected(case.sql) == pipeline.got()


def test_a_join_of_a_join_and_a_group_is_what_its_sql_gives(tmp_path: Path) -> None:
    rng = random.Random("chain")
    pipeline = Pipeline(tmp_path, chain())
    for size in (5, 12, 0, 8, 3):
        pipeline.batch(**batch(rng, [pipeline.inputs[name] for name in "lr"], Case("full"), size))
        assert pipeline.expected(CHAIN) == pipeline.got()
