"""Senders that retry, and processes that are killed: every request answered with 200 is in the tables.

The seed determines the requests and the failpoints of captures; `SINKQL_SEED` sets another seed.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sinkql.session.session import Session
from support.fault import armed
from support.patience import Deadline
from support.port import held_ports
from webhook.sending import LAKE, SINK, Sender, capturing, once, path_of, rows

_POINTS = ("journal-written", "journal-synced", "publish", "publish-files", "entry-before", "entry-made", "confirm")
_TESTS = Path(__file__).parents[1]
_SOURCE = """
CREATE SOURCE s FROM WEBHOOK BODY FORMAT JSON INCLUDE HEADER 'Idempotency-Key' AS key WITH (PORT = {port});
"""


@dataclass
class Sent:
    """The requests of the senders: bodies by key, the number of tries for each, and the keys answered with 200."""

    bodies: dict[str, object] = field(default_factory=dict)
    tries: Counter[str] = field(default_factory=Counter)
    answered: set[str] = field(default_factory=set)
    refused: Counter[int] = field(default_factory=Counter)
    failed: list[Exception] = field(default_factory=list)


def _send(sender: Sender, seed: int, name: int, count: int, sent: Sent) -> None:
    """Send requests; repeat each until it is answered with 200, and a few once more after that."""
    chance = random.Random(f"{seed} {name}")
    try:
        for number in range(count):
            key = f"{name}-{number}"
            sent.bodies[key] = {"key": key, "text": "ä" * chance.choice((0, 1, 300)), "n": chance.randrange(1 << 60)}
            deadline = Deadline()
            while key not in sent.answered or chance.random() < 0.05:
                deadline.check(f"200 for {key}: {sent.refused}")
                sent.tries[key] += 1
                try:
                    status = sender.send(path_of("s"), sent.bodies[key], {"Idempotency-Key": key}).status
                except OSError:
                    time.sleep(0.02)  # no answer: the process was killed, or has not started yet
                    continue
                sent.refused[status] += status != 200
                if status == 200:
                    sent.answered.add(key)
    except Exception as error:
        sent.failed.append(error)


@contextmanager
def _child(folder: Path, rules: str) -> Iterator[subprocess.Popen[str]]:
    """Run captures in another process, where they are killed and restarted as the rules say."""
    environment = {**os.environ, "PYTHONPATH": str(_TESTS), **(armed(rules) if rules else {})}
    child = subprocess.Popen(
        [sys.executable, "-m", "webhook.child", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "captures\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def _run(folder: Path, seed: int, *, turns: int, count: int) -> Sent:
    """Run a workload; compare the tables with the requests."""
    chance, sent = random.Random(seed), Sent()
    with held_ports(1) as (port,), Session(folder / "catalog.db") as session:
        sender = Sender(port)
        session.execute(
            LAKE.format(folder=folder)
            + _SOURCE.format(port=sender.port)
            + SINK.format(name="a", source="s", mode="MODE APPEND")
            + SINK.format(name="u", source="s", mode="KEY (key) NOT ENFORCED MODE UPSERT")
        )
        senders = [threading.Thread(target=_send, args=(sender, seed, each, count, sent)) for each in range(3)]
        for each in senders:
            each.start()
        for turn in range(turns):
            point = chance.choice(_POINTS)
            rules = f"{point}#{chance.randrange(3, 40) if point.startswith('journal') else chance.randrange(2, 5)}=kill"
            with _child(folder, rules):
                goal = len(sent.bodies) * (turn + 1) // turns + chance.randrange(3, 10)
                deadline = Deadline()
                while len(sent.answered) < min(goal, 3 * count) and any(map(threading.Thread.is_alive, senders)):
                    deadline.check(f"{goal} answers: {sent.refused}, {rules}")
                    senders[0].join(0.05)
        with capturing(session):
            for each in senders:
                each.join()
            assert not sent.failed
            once(session, "a", "u")
            _compare(folder, sent)
    return sent


def _compare(folder: Path, sent: Sent) -> None:
    once_each = {key: json.loads(body) for body, key in rows(folder, "u", "body, key")}
    assert once_each == {key: sent.bodies[key] for key in sent.answered}
    found = Counter[str]()
    for body, key in rows(folder, "a", "body, key"):
        assert json.loads(body) == sent.bodies[key]
        found[key] += 1
    assert found.keys() == sent.answered
    assert all(found[key] <= sent.tries[key] for key in found)


@pytest.mark.parametrize("seed", [1])
def test_what_was_answered_is_in_the_table(seed: int, tmp_path: Path) -> None:
    _run(tmp_path, int(os.environ.get("SINKQL_SEED", seed)), turns=1, count=12)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 124))
def test_what_was_answered_is_in_the_table_after_many_kills(seed: int, tmp_path: Path) -> None:
    _run(tmp_path, seed, turns=4, count=60)
