"""The ticks of a catalog's timeline, in its database: all hosts that use the catalog have the same."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql.catalog.store import Store


@dataclass(frozen=True, slots=True)
class TickTable:
    """The rows of `ticks`; `sinkql.storage.numbered_log.NumberedLog`. A number is given only after the one before
    it."""

    store: Store

    def numbers(self) -> list[int]:
        with self.store.read() as connection:
            return [int(each) for each in connection.scalars("SELECT number FROM ticks ORDER BY number")]

    def last(self) -> int:
        with self.store.read() as connection:
            return int(connection.scalar("SELECT max(number) FROM ticks") or 0)

    def exists(self, number: int) -> bool:
        return self.read(number) is not None

    def read(self, number: int) -> bytes | None:
        with self.store.read() as connection:
            found = connection.scalar("SELECT tick FROM ticks WHERE number = ?", number)
        return None if found is None else str(found).encode()

    def create(self, number: int, data: bytes) -> bool:
        with self.store.write() as connection:
            if int(connection.scalar("SELECT max(number) FROM ticks") or 0) != number - 1:
                return False
            connection.insert("ticks", {"number": number, "tick": data.decode()})
            return True

    def stays(self, number: int) -> bool:
        return True

    def begin_at(self, number: int) -> None:
        with self.store.write() as connection:
            connection.execute("DELETE FROM ticks WHERE number < ?", [number])
