"""A source of files loses a column, and claims fail: no sink reads a row twice or misses one."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from sinkql.runtime.batch.loop import BatchLoop
from sinkql.session import Session
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import plan_deployment
from sinkql.session.deploy.script_catalog import Script
from sinkql.storage.failpoint import FaultError
from support.fault import armed
from support.readers import open_table, pyiceberg_rows
from support.running import drain, loop_of

_SINK = """
CREATE SINK {name} FROM {relation} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')
  {clauses} WITH (COMMIT INTERVAL = '1s');
"""
_TEXT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///catalog.db', WAREHOUSE = 'lake');
CREATE SOURCE n (id bigint, gone text, more text) FROM FILES (PATH = 'in') FORMAT JSON;
CREATE MATERIALIZED VIEW upper AS SELECT id, upper(gone) AS gone, more FROM n;
"""


def _put(number: int) -> None:
    """Put a complete file into the folder, with an old modification time."""
    Path("in").mkdir(exist_ok=True)
    path = Path(f"{number}.json")
    path.write_text(json.dumps({"id": number, "gone": "g", "more": "m"}))
    os.utime(path, (number, number))
    path.rename(Path("in") / path.name)


def _sink(session: Session, name: str, epoch: int) -> BatchLoop:
    (job,) = (each for each in session.jobs() if each.sink.endswith(name))
    running = loop_of(job, session.context(job), session.catalog.registry)
    running.start(epoch=epoch)
    return running


@pytest.mark.parametrize("clauses", ["ENVELOPE NONE", "KEY (id) NOT ENFORCED MODE UPSERT"])
def test_two_sinks_continue_where_they_are_after_claims_that_failed(
    session: Session, monkeypatch: pytest.MonkeyPatch, clauses: str
) -> None:
    names = ("whole", "viewed")
    sinks = (
        _SINK.format(name=name, relation=each, clauses=clauses)
        for name, each in zip(names, ("n", "upper"), strict=True)
    )
    text = _TEXT + "".join(sinks)
    session.execute(text)
    _put(1)
    for name in names:
        drain(_sink(session, name, 1))
    _put(2)
    less = text.replace("gone text, ", "").replace("upper(gone) AS gone, ", "")
    apply(plan_deployment([Script("a.sql", less)], session), session)
    for epoch, point in enumerate(("claim", "commit-request"), 2):
        with monkeypatch.context() as faulty:
            for variable, value in armed(f"{point}=fail,{point}#2=fail").items():
                faulty.setenv(variable, value)
            faulty.setattr("sinkql.storage.failpoint._passes", Counter())
            for name in names:
                with pytest.raises(FaultError):
                    _sink(session, name, epoch)
    for number, name in enumerate(names, 3):
        _put(number)  # the second sink has one more file to read after its claim
        drain(_sink(session, name, 4))
    drain(_sink(session, "whole", 5))
    for name in names:
        table = open_table(Path(), f"n.{name}")
        assert [field.name for field in table.schema().fields] == ["id", "more"]
        assert sorted(pyiceberg_rows(table, ("id", "more"))) == [(number, "m") for number in range(1, 5)]
