"""A log or a journal that is lost: no request that is there is left out, and none is written twice."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkql.capture.log import LogFolder
from sinkql.capture.process import discard
from sinkql.connectors.webhook.journal import Journal, LostJournalError, Request, mend, segments
from sinkql.errors import SinkqlError
from sinkql.session.session import Session
from support.seaweed import seaweed
from webhook.sending import LAKE, SINK, Sender, capturing, once, path_of, rows

_PATH = path_of("s")


@pytest.fixture
def session(tmp_path: Path, sender: Sender) -> Iterator[Session]:
    with Session(tmp_path / "catalog.db") as opened:
        opened.execute(
            LAKE.format(folder=tmp_path)
            + f"CREATE SOURCE s FROM WEBHOOK BODY FORMAT TEXT WITH (PORT = {sender.port});"
            + SINK.format(name="a", source="s", mode="MODE APPEND")
            + SINK.format(name="b", source="s", mode="KEY (body) NOT ENFORCED MODE UPSERT")
        )
        yield opened


def _send(sender: Sender, *bodies: str) -> None:
    sender.listening(_PATH)
    assert {sender.send(_PATH, body).status for body in bodies} == {200}


def _bodies(folder: Path, name: str = "a") -> list[str]:
    return sorted(row[0] for row in rows(folder, name, "body"))


def _folder(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "capture").iterdir()
    return found


def test_a_log_that_is_lost_begins_again_with_the_journal(tmp_path: Path, session: Session, sender: Sender) -> None:
    with capturing(session):
        _send(sender, "1", "2")
        once(session)
    discard(LogFolder.local(_folder(tmp_path)))
    with capturing(session):
        _send(sender, "3")
        once(session)
    assert _bodies(tmp_path) == _bodies(tmp_path, "b") == ["1", "2", "3"]


def test_a_journal_that_was_put_back_is_gone_on_with(tmp_path: Path, session: Session, sender: Sender) -> None:
    with capturing(session):
        _send(sender, "1", "2")
        once(session, "a")
        _send(sender, "3")
    journal = _folder(tmp_path) / "journal"
    shutil.copytree(journal, tmp_path / "copy")
    with capturing(session):
        _send(sender, "4")
        once(session, "b")
    shutil.rmtree(journal)
    (tmp_path / "copy").rename(journal)
    (_folder(tmp_path) / "accepted.json").unlink()  # as where the host died
    with capturing(session), pytest.raises(SinkqlError, match=r"SQ4483.*\n?.*\n?.*ALTER SOURCE … SKIP"):
        once(session, "a")
    assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2353"]
    with capturing(session):
        _send(sender, "5")
        once(session)
    assert _bodies(tmp_path) == _bodies(tmp_path, "b") == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("ended", ["in order", "at once"])
def test_a_host_without_the_journal_goes_on_with_the_log(
    tmp_path: Path, session: Session, sender: Sender, ended: str
) -> None:
    """Where the one before had ended, and the log has all; else some that were accepted may be lost, and it asks."""
    with capturing(session):
        _send(sender, "1", "2")
        once(session, "a")
        _send(sender, "3")
        once(session, "b")
    shutil.rmtree(_folder(tmp_path) / "journal")
    if ended == "at once":
        (_folder(tmp_path) / "accepted.json").unlink()
        with capturing(session), pytest.raises(SinkqlError, match="SQ4483"):
            once(session, "a")
        assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2353"]
    with capturing(session):
        _send(sender, "4")
        once(session)
    assert _bodies(tmp_path) == _bodies(tmp_path, "b") == ["1", "2", "3", "4"]


def test_a_journal_that_has_more_than_the_log_is_needed(tmp_path: Path, session: Session, sender: Sender) -> None:
    with capturing(session):
        _send(sender, "1")
        once(session)
    (_folder(tmp_path) / "accepted.json").write_bytes(b"2")  # the log has not the second
    shutil.rmtree(_folder(tmp_path) / "journal")
    with capturing(session), pytest.raises(SinkqlError, match="SQ4483"):
        once(session)


def test_a_journal_that_is_damaged_in_its_middle_is_gone_on_with(
    tmp_path: Path, session: Session, sender: Sender
) -> None:
    with capturing(session):
        _send(sender, "one")
        once(session, "a")
        _send(sender, "two")
        _send(sender, "three")
    (segment,) = [path for path in (_folder(tmp_path) / "journal").iterdir() if b"three" in path.read_bytes()]
    segment.write_bytes(segment.read_bytes().replace(b"two", b"tow"))
    with capturing(session), pytest.raises(SinkqlError, match="SQ4483"):
        once(session, "a")
    assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2353"]
    with capturing(session):
        _send(sender, "four")
        once(session)
    assert _bodies(tmp_path) == _bodies(tmp_path, "b") == ["four", "one", "three"]


@pytest.mark.parametrize("lost", ["a segment", "a beginning", "an end", "a first segment"])
def test_requests_keep_their_numbers_where_others_are_lost(tmp_path: Path, lost: str) -> None:
    for number in range(3):
        journal, _ = Journal.open(tmp_path)
        journal.append([Request(1, [f"{number} first"])])
        journal.append([Request(1, [f"{number} second"])])
        journal.close()
    first, path = (tmp_path / f"{number:010}.journal" for number in segments(tmp_path)[:2])
    data = path.read_bytes()
    gone: set[int] = set()
    match lost:
        case "a segment":
            path.unlink()
            gone = {2, 3}
        case "a beginning":
            path.write_bytes(data.replace(b"first", b"tsrif", 1))  # of the key, and not of the request
        case "an end":
            path.write_bytes(data[:-1])
            gone = {3}
        case _:
            first.unlink()
            path.write_bytes(data.replace(b"1 first", b"1 tsrif"))
            gone = {2}
    with pytest.raises(LostJournalError):
        Journal.open(tmp_path)
    mend(tmp_path)
    mend(tmp_path)
    journal, found = Journal.open(tmp_path)
    assert journal.append([Request(1, ["more"])]) == 7
    journal.close()
    texts = [f"{number} {each}" for number in range(3) for each in ("first", "second")]
    expected = [[] if place in gone else [text] for place, text in enumerate(texts)]
    assert journal.floor == (2 if lost == "a first segment" else 0)
    assert [each.bodies for each in found] == expected[journal.floor :]


def test_damage_in_the_last_segment_is_told_from_a_write_that_was_broken_off(tmp_path: Path) -> None:
    """Any byte may be damaged, and any write broken off, with or without zeros in place of the rest."""
    journal, _ = Journal.open(tmp_path / "whole")
    ends = [len(_only(tmp_path / "whole"))]
    for number in range(3):
        journal.append([Request(1, [f"body {number}"])])
        ends.append(len(_only(tmp_path / "whole")))
    journal.close()
    whole = _only(tmp_path / "whole")
    for place in range(len(whole)):
        assert _opened(tmp_path, whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]) is None
        there = max((number for number, end in enumerate(ends) if end <= place), default=0)
        assert _opened(tmp_path, whole[:place]) == there
        last = next(end for end in ends if end > place)
        assert _opened(tmp_path, whole[:place] + bytes(last - place)) == there


def _only(folder: Path) -> bytes:
    (path,) = folder.iterdir()
    return path.read_bytes()


def _opened(tmp_path: Path, data: bytes) -> int | None:
    """Return how many requests a journal of one segment has; None where it says that some are lost."""
    folder = tmp_path / "journal"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / f"{1:010}.journal").write_bytes(data)
    try:
        journal, found = Journal.open(folder)
    except LostJournalError:
        mend(folder)
        Journal.open(folder)[0].close()
        return None
    journal.close()
    return len(found)


def test_log_may_be_in_a_bucket(tmp_path: Path, sender: Sender) -> None:
    with seaweed(tmp_path / "seaweed") as server, Session(tmp_path / "catalog.db") as session:
        session.execute(
            LAKE.format(folder=tmp_path)
            + f"CREATE SECRET key AS '{server.secret}'; CREATE CONNECTION aws TO AWS (ACCESS KEY ID = '{server.user}', "
            f"SECRET ACCESS KEY = SECRET key, ENDPOINT = 'http://127.0.0.1:{server.s3}');"
            f"CREATE SOURCE s FROM WEBHOOK BODY FORMAT TEXT "
            f"WITH (PORT = {sender.port}, LOG = 's3://data', AWS CONNECTION = aws);"
            + SINK.format(name="a", source="s", mode="MODE APPEND")
        )
        with capturing(session):
            _send(sender, "1", "2")
            once(session)
        assert _bodies(tmp_path) == ["1", "2"]
        (result,) = session.execute("SELECT body FROM s")
        assert sorted(row[0] for row in result.rows) == ["1", "2"]
        assert sorted(each.name for each in _folder(tmp_path).iterdir() if each.name in ("log", "data")) == []
