"""If a capture log or a request log is lost, no stored request is left out, and none is written twice."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkql.capture.log import LogDirectory
from sinkql.capture.runner import discard
from sinkql.catalog.secret.cipher import KEY_VARIABLE
from sinkql.connectors.webhook.request_log import LostRequestLogError, Request, RequestLog, repair, segments
from sinkql.errors import SinkqlError
from sinkql.session.session import Session
from support.catalog import server_url
from support.postgres import Postgres
from support.seaweed import Seaweed, seaweed
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
    assert {sender.send(_PATH, body).status for body in bodies} <= {200}


def _bodies(folder: Path, name: str = "a") -> list[str]:
    return sorted(row[0] for row in rows(folder, name, "body"))


def _folder(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "capture").iterdir()
    return found


def test_a_log_that_is_lost_begins_again_with_the_request_log(tmp_path: Path, session: Session, sender: Sender) -> None:
    with capturing(session):
        _send(sender, "1", "2")
        once(session)
    discard(LogDirectory.local(_folder(tmp_path)))
    with capturing(session):
        _send(sender, "3")
        once(session)
    assert _bodies(tmp_path) == _bodies(tmp_path, "b") == ["1", "2", "3"]


def _break_off(tmp_path: Path, *, after: int | None = None) -> None:
    """Delete the closing entry of a log and the requests above number `after`, as if the capture had been killed."""
    log = LogDirectory.local(_folder(tmp_path))
    for number in reversed(log.numbers()):
        entry = log.entry(number)
        assert entry is not None
        if entry.kind != "close" and (after is None or int(entry.to, 16) <= after):
            return
        log.store.delete_entry(number)


def test_a_request_log_that_was_put_back_is_continued(tmp_path: Path, session: Session, sender: Sender) -> None:
    with capturing(session):
        _send(sender, "1", "2")
        once(session, "a")
        _send(sender, "3")
    request_log = _folder(tmp_path) / "journal"
    shutil.copytree(request_log, tmp_path / "copy")
    with capturing(session):
        _send(sender, "4")
        once(session, "b")
    _break_off(tmp_path)
    shutil.rmtree(request_log)
    (tmp_path / "copy").rename(request_log)
    with capturing(session), pytest.raises(SinkqlError, match=r"SQ4483.*\n?.*\n?.*ALTER SOURCE … SKIP"):
        once(session, "a")
    assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2353"]
    with capturing(session):
        _send(sender, "5")
        once(session)
    assert _bodies(tmp_path) == _bodies(tmp_path, "b") == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("request_log", [pytest.param("none", marks=pytest.mark.soak), "an earlier one"])
def test_host_without_the_request_log_continues_where_the_log_has_all(
    tmp_path: Path, session: Session, sender: Sender, request_log: str
) -> None:
    with capturing(session):
        _send(sender, "1", "2")
        shutil.copytree(_folder(tmp_path) / "journal", tmp_path / "copy")
        _send(sender, "3")
    shutil.rmtree(_folder(tmp_path) / "journal")
    if request_log == "an earlier one":
        (tmp_path / "copy").rename(_folder(tmp_path) / "journal")
    for body in ("4", "5"):
        with capturing(session):
            _send(sender, body)
    with capturing(session):
        once(session)
    assert _bodies(tmp_path) == _bodies(tmp_path, "b") == ["1", "2", "3", "4", "5"]


def test_requests_that_another_host_has_accepted_are_missed(tmp_path: Path, session: Session, sender: Sender) -> None:
    """The first host's request log ends with the capture log; the second host's has more requests."""
    with capturing(session):
        _send(sender, "1")
    folder = _folder(tmp_path)
    (folder / "journal").rename(tmp_path / "first")
    with capturing(session):
        _send(sender, "2", "3")
    _break_off(tmp_path, after=1)
    (folder / "journal").rename(tmp_path / "second")
    (tmp_path / "first").rename(folder / "journal")
    with capturing(session), pytest.raises(SinkqlError, match="SQ4483"):
        once(session, "a")
    shutil.rmtree(folder / "journal")
    (tmp_path / "second").rename(folder / "journal")
    with capturing(session):
        once(session)
    assert _bodies(tmp_path) == _bodies(tmp_path, "b") == ["1", "2", "3"]


def test_requests_of_which_the_log_has_none_are_missed(tmp_path: Path, session: Session, sender: Sender) -> None:
    with capturing(session):
        _send(sender, "1")
    _break_off(tmp_path, after=0)
    shutil.rmtree(_folder(tmp_path) / "journal")
    with capturing(session), pytest.raises(SinkqlError, match="SQ4483"):
        once(session, "a")


def test_data_file_that_is_damaged_is_gone_past(tmp_path: Path, session: Session, sender: Sender) -> None:
    with capturing(session):
        _send(sender, "1")
        once(session, "a")
    (file,) = (_folder(tmp_path) / "data").glob("*.arrow")
    file.write_bytes(b"damaged")
    for code in ("SQ3435", "SQ3436"):
        with capturing(session), pytest.raises(SinkqlError, match=code):
            once(session, "b")
    assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2353"]
    with capturing(session):
        once(session)
        _send(sender, "2")
        once(session)
    assert _bodies(tmp_path) == _bodies(tmp_path, "b") == ["1", "2"]  # the request log still has the request


def test_what_the_log_has_is_read_where_a_host_continues_without_the_request_log(
    tmp_path: Path, session: Session, sender: Sender
) -> None:
    with capturing(session):
        _send(sender, "1")
        once(session, "a")
        _send(sender, "2", "3")
    _break_off(tmp_path)
    shutil.rmtree(_folder(tmp_path) / "journal")
    for names in (("a",), ("b",)):
        with capturing(session), pytest.raises(SinkqlError, match="SQ4483"):
            once(session, *names)
    assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2353"]
    with capturing(session):
        _send(sender, "4")
        once(session)
    assert _bodies(tmp_path) == _bodies(tmp_path, "b") == ["1", "2", "3", "4"]


def test_a_request_log_that_is_damaged_in_its_middle_is_continued(
    tmp_path: Path, session: Session, sender: Sender
) -> None:
    with capturing(session):
        _send(sender, "one")
        once(session, "a")
        _send(sender, "two")
        _send(sender, "three")
    _break_off(tmp_path, after=1)
    (segment,) = [path for path in (_folder(tmp_path) / "journal").iterdir() if b"three" in path.read_bytes()]
    segment.write_bytes(segment.read_bytes().replace(b"two", b"tow"))
    with capturing(session), pytest.raises(SinkqlError, match="SQ4483"):
        once(session, "a")
    assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2353"]
    with capturing(session):
        _send(sender, "four")
        once(session)
    assert _bodies(tmp_path) == _bodies(tmp_path, "b") == ["four", "one", "three"]


@pytest.mark.parametrize(
    "before", [*(pytest.param(each, marks=pytest.mark.soak) for each in ("no capture", "no request")), "2 requests"]
)
def test_what_comes_after_log_and_request_log_are_lost_is_not_taken_for_what_was_read(
    tmp_path: Path, session: Session, sender: Sender, before: str
) -> None:
    """Nor if the capture has restarted and accepted requests before the sink reports its position."""
    new = ["3", "4"] if before == "2 requests" else []
    with capturing(session):
        _send(sender, "1", "2")
        once(session)
    shutil.rmtree(_folder(tmp_path))
    with capturing(session):
        if before != "no capture":
            _send(sender, *new)
        with pytest.raises(SinkqlError, match="SQ3436"):
            once(session, "a")
    assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2353"]
    with capturing(session):
        _send(sender, "5")
        once(session)
    assert _bodies(tmp_path) == _bodies(tmp_path, "b") == ["1", "2", *new, "5"]


@pytest.mark.parametrize("lost", ["a segment", "a beginning", "an end", "a first segment"])
def test_requests_keep_their_numbers_where_others_are_lost(tmp_path: Path, lost: str) -> None:
    for number in range(3):
        request_log, _ = RequestLog.open(tmp_path)
        request_log.append([Request(1, [f"{number} first"])])
        request_log.append([Request(1, [f"{number} second"])])
        request_log.close()
    first, path = (tmp_path / f"{number:010}.journal" for number in segments(tmp_path)[:2])
    data = path.read_bytes()
    gone: set[int] = set()
    match lost:
        case "a segment":
            path.unlink()
            gone = {2, 3}
        case "a beginning":
            path.write_bytes(data.replace(b"first", b"tsrif", 1))  # damages the key, not the request
        case "an end":
            path.write_bytes(data[:-1])
            gone = {3}
        case _:
            first.unlink()
            path.write_bytes(data.replace(b"1 first", b"1 tsrif"))
            gone = {2}
    with pytest.raises(LostRequestLogError):
        RequestLog.open(tmp_path)
    repair(tmp_path)
    repair(tmp_path)
    request_log, found = RequestLog.open(tmp_path)
    assert request_log.append([Request(1, ["more"])]) == 7
    request_log.close()
    texts = [f"{number} {each}" for number in range(3) for each in ("first", "second")]
    expected = [[] if place in gone else [text] for place, text in enumerate(texts)]
    assert request_log.floor == (2 if lost == "a first segment" else 0)
    assert [each.bodies for each in found] == expected[request_log.floor :]


def test_damage_in_the_last_segment_is_told_from_a_write_that_was_broken_off(tmp_path: Path) -> None:
    """Any byte may be damaged, and any write torn, with or without zeros instead of the rest."""
    request_log, _ = RequestLog.open(tmp_path / "whole")
    ends = [len(_only(tmp_path / "whole"))]
    for number in range(3):
        request_log.append([Request(1, [f"body {number}"])])
        ends.append(len(_only(tmp_path / "whole")))
    request_log.close()
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
    """Return the number of requests in a log of one segment; None if some are lost."""
    folder = tmp_path / "journal"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / f"{1:010}.journal").write_bytes(data)
    try:
        request_log, found = RequestLog.open(folder)
    except LostRequestLogError:
        repair(folder)
        RequestLog.open(folder)[0].close()
        return None
    request_log.close()
    return len(found)


def test_request_log_may_continue_after_a_later_number(tmp_path: Path) -> None:
    request_log, _ = RequestLog.open(tmp_path)
    request_log.append([Request(1, ["one"])])
    first = (tmp_path / f"{1:010}.journal").read_bytes()
    request_log.skip(7)
    request_log.close()
    assert segments(tmp_path) == [2]
    (tmp_path / f"{1:010}.journal").write_bytes(first)  # the process was killed before it deleted this
    for _ in range(2):
        request_log, found = RequestLog.open(tmp_path)
        request_log.close()
        assert (found, request_log.floor, request_log.end) == ([], 7, 7)
    repair(tmp_path)
    request_log, found = RequestLog.open(tmp_path)
    assert request_log.append([Request(1, ["eight"])]) == 8
    request_log.close()
    request_log, found = RequestLog.open(tmp_path)
    request_log.forget(8)
    request_log.close()
    assert ([each.bodies for each in found], segments(tmp_path)) == ([["eight"]], [7])


def test_another_host_continues_with_a_log_in_a_bucket(
    tmp_path: Path, sender: Sender, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second host has the catalog, the lake and the object store, and no files of the first host."""
    monkeypatch.setenv(KEY_VARIABLE, "A" * 43 + "=")
    url = server_url(postgres, tmp_path / "first")
    hosts = (url, url.replace("/first", "/second"), url)
    with seaweed(tmp_path / "seaweed") as server:
        for number, host in enumerate(hosts):
            with Session(host) as session:
                if number == 0:
                    session.execute(LAKE.format(folder=tmp_path) + _in_bucket(server, sender))
                with capturing(session):
                    _send(sender, f"{number} first")
                    once(session)
                    _send(sender, f"{number} second")
    assert _bodies(tmp_path) == ["0 first", "0 second", "1 first", "1 second", "2 first"]


def _in_bucket(server: Seaweed, sender: Sender) -> str:
    return (
        f"CREATE SECRET key AS '{server.secret}'; CREATE CONNECTION aws TO AWS (ACCESS KEY ID = '{server.user}', "
        f"SECRET ACCESS KEY = SECRET key, ENDPOINT = 'http://127.0.0.1:{server.s3}');"
        f"CREATE SOURCE s FROM WEBHOOK BODY FORMAT TEXT "
        f"WITH (PORT = {sender.port}, LOG = 's3://data', AWS CONNECTION = aws);"
        + SINK.format(name="a", source="s", mode="MODE APPEND")
    )


def test_log_may_be_in_a_bucket(tmp_path: Path, sender: Sender) -> None:
    with seaweed(tmp_path / "seaweed") as server, Session(tmp_path / "catalog.db") as session:
        session.execute(LAKE.format(folder=tmp_path) + _in_bucket(server, sender))
        with capturing(session):
            _send(sender, "1", "2")
            once(session)
        assert _bodies(tmp_path) == ["1", "2"]
        (result,) = session.execute("SELECT body FROM s")
        assert sorted(row[0] for row in result.rows) == ["1", "2"]
        assert sorted(each.name for each in _folder(tmp_path).iterdir() if each.name in ("log", "data")) == []
