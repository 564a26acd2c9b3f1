"""The bytes of values of a schema that refers to itself → an error where they are nested too deeply to be decoded.

fastavro follows values as deep as they go, on a stack that ends somewhere, and lists as long as they say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Literal

_DEEPEST = 8000
"""How many records, unions, lists and maps may be within each other; of a linked list, each element is two."""
_FEW = 1 << 16
"""How many values of lists may be in a block of fewer bytes: some have none."""
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


@dataclass(slots=True, eq=False)
class Node:
    """What values of a schema are made of: one of the parts, each of them, any number of them, or bytes.

    Bytes are `size` ones, those of a number, or as many as a number before them says.
    """

    kind: Literal["one", "each", "many", "bytes", "number", "text"]
    parts: Sequence[Node] = ()
    size: int = 0


def nodes(schema: Any) -> Node | None:  # as JSON has it
    """Return what values are made of; None where they cannot be deeper than the schema, nor many in no bytes."""
    made = _Made()
    node = made.of(schema)
    return node if made.doubtful else None


def check(node: Node, data: bytes, count: int) -> None:
    """Go over so many values; raises ValueError where one is nested too deeply, or is not whole."""
    place = _Place(data)
    waiting: list[Iterator[Node]] = [repeat(node, count)]
    while waiting:
        now = next(waiting[-1], None)
        if now is None:
            waiting.pop()
        elif now.kind == "bytes":
            place.skip(now.size)
        elif now.kind == "number":
            place.number()
        elif now.kind == "text":
            place.skip(place.number())
        else:
            waiting.append(place.parts(now))
        if len(waiting) > _DEEPEST:
            raise ValueError("a record in it is nested too deeply")


class _Place:
    """A place in bytes, which moves on as they are gone over."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at, self._values = data, 0, 0

    def parts(self, node: Node) -> Iterator[Node]:
        if node.kind == "each":
            yield from node.parts
        elif node.kind == "one":
            branch = self.number()
            if not 0 <= branch < len(node.parts):
                raise ValueError("a value in it is of no type of its union")
            yield node.parts[branch]
        else:
            while count := self.number():
                if count < 0:
                    self.number()  # of its bytes
                self._values += abs(count)
                if self._values > max(len(self._data), _FEW):
                    raise ValueError("its lists say that they have more values than it has bytes")
                for _ in range(abs(count)):
                    yield from node.parts

    def skip(self, size: int) -> None:
        self._at += size
        if size < 0 or self._at > len(self._data):
            raise ValueError("its data is cut off")

    def number(self) -> int:
        found = shift = 0
        while self._at < len(self._data) and shift < 64:
            byte = self._data[self._at]
            found |= (byte & 0x7F) << shift
            self._at += 1
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
            shift += 7
        raise ValueError("its data is cut off")


class _Made:
    """Make nodes of schemas. One that is referred to within itself is doubtful, and a list of what has no bytes."""

    def __init__(self) -> None:
        self._named: dict[str, Node] = {}
        self._within: list[str] = []
        self.doubtful = False

    def of(self, schema: Any) -> Node:
        match schema:
            case list():
                return Node("one", [self.of(branch) for branch in schema])
            case "int" | "long":
                return Node("number")
            case "bytes" | "string":
                return Node("text")
            case str() if schema in _SIZES:
                return Node("bytes", size=_SIZES[schema])
            case str():
                self.doubtful = self.doubtful or schema in self._within
                return self._named[schema]
            case {"type": "record" | "error", "name": name, "fields": fields}:
                parts: list[Node] = []
                node = self._named[name] = Node("each", parts)
                self._within.append(name)
                parts += [self.of(field["type"]) for field in fields]
                self._within.pop()
                return node
            case {"type": "enum", "name": name}:
                return self._named.setdefault(name, Node("number"))
            case {"type": "fixed", "name": name, "size": size}:
                return self._named.setdefault(name, Node("bytes", size=size))
            case {"type": "array", "items": items}:
                item = self.of(items)
                self.doubtful = self.doubtful or _empty(item)
                return Node("many", [item])
            case {"type": "map", "values": values}:
                return Node("many", [Node("text"), self.of(values)])
            case {"type": inner}:
                return self.of(inner)
        raise ValueError(f"its schema has {schema}")


def _empty(node: Node) -> bool:
    """Tell whether values have no bytes; one that is still being made is doubtful as it is."""
    return (node.kind == "bytes" and node.size == 0) or (node.kind == "each" and all(map(_empty, node.parts)))
