"""Transactions of a catalog, in a file and in Postgres: isolation, waiting, upgrades, forks, interrupts."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.synchronize import Barrier

import pytest

from sinkql.catalog.address import Address
from sinkql.catalog.coordination.control import Control
from sinkql.catalog.open_store import open_store
from sinkql.catalog.sqlite.schema import UPGRADES, VERSION, Layout
from sinkql.catalog.store import Connection, Store
from sinkql.catalog.system import LAYOUT
from sinkql.errors import SinkqlError
from support.patience import PATIENCE_S, ended
from support.started import context, start


def _next(step: Callable[[Connection], None]) -> Layout:
    """Return the layout of the release after this one."""
    return Layout(LAYOUT.derived, (*UPGRADES, step))


def _add_column(connection: Connection) -> None:
    connection.execute("ALTER TABLE desired ADD COLUMN reason TEXT NOT NULL DEFAULT 'none'")


def _add(store: Store, name: str) -> None:
    with store.write() as connection:
        connection.insert("settings", {"name": name, "value": "v"})


def _names(store: Store) -> list[str]:
    with store.read() as connection:
        return [str(name) for name in connection.scalars("SELECT name FROM settings ORDER BY name")]


def test_reading_transaction_cannot_write_and_the_next_one_can(place: Address) -> None:
    store = open_store(place, LAYOUT)
    with pytest.raises(SinkqlError), store.read() as connection:
        connection.insert("settings", {"name": "a", "value": "b"})
    _add(store, "c")
    assert _names(store) == ["c"]


def test_reading_transaction_sees_one_state(place: Address) -> None:
    store, other = open_store(place, LAYOUT), open_store(place, LAYOUT)
    with store.read() as connection:
        before = connection.scalar("SELECT count(*) FROM settings")
        _add(other, "a")
        assert before == connection.scalar("SELECT count(*) FROM settings")
    assert _names(store) == ["a"]


def test_what_fails_leaves_nothing(place: Address) -> None:
    store = open_store(place, LAYOUT)

    def fail() -> None:
        with store.write() as connection:
            connection.insert("settings", {"name": "a", "value": "b"})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert _names(store) == []


def test_texts_sort_by_their_code_points(place: Address) -> None:
    store = open_store(place, LAYOUT)
    for name in ("b", "B", "a", "Z", "\u00e9", "_"):
        _add(store, name)
    assert _names(store) == sorted(("b", "B", "a", "Z", "\u00e9", "_"))


def test_values_come_back_as_they_were(place: Address) -> None:
    store = open_store(place, LAYOUT)
    secret = {"item_id": "u1", "version": 2**62, "kind": "literal", "nonce": b"\0\xff", "ciphertext": None}
    item = dict.fromkeys(
        ("name", "full_name", "kind", "create_sql", "redacted_sql", "facts", "details"), "100% \u2603 ?"
    )
    with store.write() as connection:
        number = connection.last_number("items")
        connection.insert("items", {"id": "u1", **item, "planned_for": "", "created_at": "", "owner": "o"})
        connection.insert("secrets", secret)
    with store.read() as connection:
        row = connection.first("SELECT * FROM secrets")
        name, found = connection.first("SELECT name, number FROM items WHERE name = ?", "100% \u2603 ?")
    assert secret == {key: getattr(row, key) for key in secret}
    assert (name, found) == ("100% \u2603 ?", number + 1)


def test_numbers_are_not_given_twice(place: Address) -> None:
    store = open_store(place, LAYOUT)
    values = {"intent": "i", "content": "{}", "host": "h", "pid": 1, "process": "p", "started_at": "t"}
    with store.write() as connection:
        first = [connection.insert_numbered("journal", values) for _ in range(3)]
        connection.execute("DELETE FROM journal")
    with store.write() as connection:
        assert connection.last_number("journal") == first[-1]
        assert connection.insert_numbered("journal", values) == first[-1] + 1


def test_older_catalog_is_upgraded_and_then_refused_to_older_programs(place: Address) -> None:
    Control(open_store(place, LAYOUT)).set_desired("s", "stopped")
    store = open_store(place, _next(_add_column))
    with store.read() as connection:
        assert connection.all("SELECT desired, reason FROM desired") == [("stopped", "none")]
    with pytest.raises(SinkqlError) as refused:
        open_store(place, LAYOUT)
    assert refused.value.code == "SQ4102"
    assert f"its version is {VERSION + 1}" in (refused.value.detail or "")


def test_failed_upgrade_changes_nothing(place: Address) -> None:
    _add(open_store(place, LAYOUT), "a")

    def broken_step(connection: Connection) -> None:
        connection.execute("DROP TABLE settings")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        open_store(place, _next(broken_step))
    assert _names(open_store(place, LAYOUT)) == ["a"]


def test_catalog_that_must_be_there_is_not_made(place: Address) -> None:
    for _ in range(2):
        with pytest.raises(SinkqlError) as refused:
            open_store(place, LAYOUT, existing=True)
        assert refused.value.code == "SQ4115"
    open_store(place, LAYOUT)
    open_store(place, LAYOUT, existing=True)


def _commit_often(place: Address, barrier: Barrier) -> None:
    barrier.wait()
    control = Control(open_store(place, LAYOUT))
    for _ in range(20):
        control.committed("s", rows=3, size=10, offsets={}, epoch=1)


@pytest.mark.long
def test_processes_that_open_a_new_catalog_and_write_at_once_lose_nothing(place: Address) -> None:
    barrier = context().Barrier(4, timeout=PATIENCE_S)
    processes = [start(_commit_often, place, barrier) for _ in range(4)]
    assert ended(*processes) == [0] * 4
    with open_store(place, LAYOUT).read() as connection:
        row = connection.first("SELECT * FROM progress")
        catalogs = connection.scalar("SELECT count(*) FROM identity")
    assert (row.messages, row.bytes, row.commits, catalogs) == (240, 800, 80, 1)


def test_transactions_at_a_time_do_not_wait_for_each_other(place: Address) -> None:
    store = open_store(place, LAYOUT)
    with store.write() as one, store.read() as other:
        one.insert("settings", {"name": "a", "value": "b"})
        assert other.scalar("SELECT count(*) FROM settings") == 0
    assert _names(store) == ["a"]


def test_a_forked_process_and_its_parent_do_not_disturb_each_other(place: Address) -> None:
    store = open_store(place, LAYOUT)
    _add(store, "before")

    def child() -> None:
        for name in ("child one", "child two"):
            _add(store, name)
        store.close()

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    _add(store, "parent")
    assert ended(process) == [0]
    _add(store, "parent again")
    assert _names(store) == ["before", "child one", "child two", "parent", "parent again"]


def test_a_copy_has_all_and_changes_nothing(place: Address) -> None:
    store = open_store(place, LAYOUT)
    _add(store, "a")
    copy = store.copy()
    _add(copy, "b")
    assert (_names(store), _names(copy)) == (["a"], ["a", "b"])
    assert (store.address, store.folder) == (copy.address, copy.folder)
    with store.read() as mine, copy.read() as theirs:
        query = "SELECT * FROM identity"
        assert mine.all(query) == theirs.all(query)


def test_system_relations_show_what_others_wrote_since(place: Address) -> None:
    store, other = open_store(place, LAYOUT), open_store(place, LAYOUT)
    for number in range(3):
        Control(other).status("s", "stalled", error=str(number))
        with store.views() as connection:
            history = connection.execute("SELECT error FROM status_history ORDER BY number").fetchall()
            now = connection.execute("SELECT error FROM statuses").fetchall()
        assert ([str(each) for each in range(number + 1)], [(str(number),)]) == ([error for (error,) in history], now)
