"""Random changes, kills and restarts by seed: a topic has each change of its relation exactly once."""

from __future__ import annotations

import json
import random
import signal
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kafka.pipeline import Pipeline
from kafka.sinking import Message, committed, topic_sink
from kafka.test_workload import Runner
from support.forking import Children

pytestmark = [pytest.mark.server, pytest.mark.long]

_POINTS = (
    "claim", "read-marker", "data-file", "data-files", "messages", "commit-request", "commit-reply", "committed",
    "released", "status",
)  # fmt: skip
_SINKS = ("people", "teams", "loose", "latest")
_IDS, _TEAMS = 12, 4


@dataclass
class Model:
    """The expected rows of the table and of the views over it."""

    rng: random.Random
    people: dict[int, tuple[str, int]] = field(default_factory=dict)

    def change(self) -> list[str]:
        """Change some rows; return the statements."""
        found = []
        for _ in range(self.rng.randint(1, 8)):
            id_, team, points = self.rng.randrange(_IDS), f"t{self.rng.randrange(_TEAMS)}", self.rng.randrange(5)
            if id_ not in self.people:
                self.people[id_] = (team, points)
                found.append(f"INSERT INTO people VALUES ({id_}, '{team}', {points});")
            elif self.rng.random() < 0.4:
                del self.people[id_]
                found.append(f"DELETE FROM people WHERE id = {id_};")
            else:
                self.people[id_] = (team, points)
                found.append(f"UPDATE people SET team = '{team}', points = {points} WHERE id = {id_};")
        return found

    def rows(self, relation: str) -> list[dict[str, Any]]:
        """Return the expected rows of a relation."""
        rows = [{"id": id_, "team": team, "points": points} for id_, (team, points) in self.people.items()]
        if relation == "people":
            return rows
        teams = sorted({team for team, _ in self.people.values()})
        if relation == "loose":
            return [{"team": each["team"], "points": each["points"]} for each in rows]
        return [{"team": team, "n": sum(each["team"] == team for each in rows)} for team in teams]


def _set_up(pipeline: Pipeline, number: int) -> dict[str, str]:
    """Create the relations and their sinks; return the topics."""
    topics = {each: f"{each}-{number}" for each in _SINKS}
    pipeline.run(
        "CREATE TABLE people (id bigint PRIMARY KEY, team text NOT NULL, points bigint NOT NULL);"
        "CREATE MATERIALIZED VIEW teams AS SELECT team, count(*) AS n FROM people GROUP BY team;"
        "CREATE MATERIALIZED VIEW loose AS SELECT team, points FROM people;"
    )
    parts = ", TOPIC PARTITION COUNT 3"
    topic_sink(pipeline, "people", topics["people"], "KEY (id) FORMAT JSON ENVELOPE UPSERT", parts)
    topic_sink(pipeline, "teams", topics["teams"], "KEY (team) FORMAT JSON ENVELOPE DEBEZIUM", parts)
    topic_sink(pipeline, "loose", topics["loose"], "FORMAT JSON ENVELOPE DEBEZIUM", parts)
    # another sink reads the first sink's topic, in which rows overwrite each other
    pipeline.broker.topic(3, topics["people"])
    pipeline.run(
        "CREATE SOURCE latest (id bigint, team text, points bigint, PRIMARY KEY (id) NOT ENFORCED) FROM KAFKA "
        f"CONNECTION kafka (TOPIC '{topics['people']}') KEY FORMAT JSON VALUE FORMAT JSON ENVELOPE UPSERT;"
    )
    topic_sink(pipeline, "latest", topics["latest"], "KEY (id) FORMAT JSON ENVELOPE DEBEZIUM", parts)
    return topics


def _json(value: bytes | None) -> Any:
    return None if value is None else json.loads(value)


def _upserted(messages: list[Message]) -> list[Any]:
    """Return the rows of a topic; assert that no message repeats the row of its key."""
    found: dict[bytes | None, Any] = {}
    for each in messages:
        row = _json(each.value)
        assert found.get(each.key) != row, each
        found[each.key] = row
    return [row for row in found.values() if row is not None]


def _debezium(messages: list[Message]) -> list[Any]:
    """Return the rows of a topic; assert that each message follows the last row of its key."""
    found: dict[bytes | None, Any] = {}
    for each in messages:
        change = _json(each.value)
        assert found.get(each.key) == change["before"] != change["after"], each
        found[each.key] = change["after"]
    return [row for row in found.values() if row is not None]


def _counted(messages: list[Message]) -> list[Any]:
    """Return the rows of a topic without keys, in which the order of messages is irrelevant."""
    counts: dict[str, int] = defaultdict(int)
    for each in messages:
        change = _json(each.value)
        assert each.key is None
        counts[json.dumps(change["before"] or change["after"])] += 1 if change["before"] is None else -1
    assert min(counts.values(), default=0) >= 0
    return [json.loads(row) for row, count in counts.items() for _ in range(count)]


_FOLDS: dict[str, Callable[[list[Message]], list[Any]]] = {
    "people": _upserted,
    "teams": _debezium,
    "loose": _counted,
    "latest": _debezium,
}


def _sorted(rows: list[Any]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def _play(seed: int, pipeline: Pipeline, children: Children, *, steps: int, restarts: int) -> None:
    rng = random.Random(seed)
    broker, model = pipeline.broker, Model(rng)
    topics = _set_up(pipeline, seed)
    runner = Runner(pipeline.folder, children)
    restarting = set(rng.sample(range(steps), restarts))
    made: set[str] = set()
    for step in range(steps):
        for statement in model.change():
            pipeline.run(statement)
        relation = rng.choice(_SINKS)
        failpoints = (
            f"{rng.choice(_POINTS)}#{rng.randint(1, 3)}={rng.choice(['kill', 'fail'])}" if rng.random() < 0.6 else ""
        )
        runner.begin(relation, failpoints, rng.choice([3, 20, 1000]))
        if step in restarting:
            broker.restart(rng.choice([signal.SIGKILL, signal.SIGTERM]))
        if runner.end() == 0:
            made.add(relation)
        if relation in made and rng.random() < 0.3:
            _FOLDS[relation](committed(broker, topics[relation], settle=False))
    for relation in _SINKS:
        runner.finish(relation)
        expected = model.rows("people" if relation == "latest" else relation)
        assert _sorted(_FOLDS[relation](committed(broker, topics[relation]))) == _sorted(expected)


def test_a_topic_has_each_change_once(pipeline: Pipeline, children: Children) -> None:
    _play(1, pipeline, children, steps=6, restarts=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, *range(100, 125)])
def test_a_topic_has_each_change_once_at_length(seed: int, pipeline: Pipeline, children: Children) -> None:
    _play(seed, pipeline, children, steps=40, restarts=3)
