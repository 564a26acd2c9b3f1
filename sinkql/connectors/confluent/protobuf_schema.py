"""The text of a Protobuf schema, or its descriptors → a message's type, and its columns.

FORMAT PROTOBUF → the columns of a message, and the decoder's options.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from sinkql import logical
from sinkql.connector_api.planning import FormatPlan, PlanningContext, SourceMessages
from sinkql.connectors.confluent.schema import check_declared, known, registry_options, unusable
from sinkql.errors import SinkqlError
from sinkql.logical.type import Field, map_type, parse_type, record_type

_MAIN = "schema_of_topic.proto"
_PATIENCE_S = 60
_SCALARS = {
    "int32": "integer", "sint32": "integer", "sfixed32": "integer", "int64": "bigint", "sint64": "bigint",
    "sfixed64": "bigint", "uint32": "uint4", "fixed32": "uint4", "uint64": "uint8", "fixed64": "uint8",
    "float": "real", "double": "double precision", "bool": "boolean", "string": "text", "bytes": "bytea",
    "enum": "text",
}  # fmt: skip
_NAMES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool", 9: "string",
    10: "message", 11: "message", 12: "bytes", 13: "uint32", 14: "enum", 15: "sfixed32", 16: "sfixed64", 17: "sint32",
    18: "sint64",
}  # fmt: skip
"""What descriptors number types with; a group, 10, is a message."""
WELL_KNOWN = {
    "google.protobuf.Timestamp": "timestamptz", "google.protobuf.Duration": "interval",
    "google.protobuf.Struct": "jsonb", "google.protobuf.Value": "jsonb", "google.protobuf.ListValue": "jsonb",
    "google.protobuf.DoubleValue": "double precision", "google.protobuf.FloatValue": "real",
    "google.protobuf.Int64Value": "bigint", "google.protobuf.UInt64Value": "uint8",
    "google.protobuf.Int32Value": "integer", "google.protobuf.UInt32Value": "uint4",
    "google.protobuf.BoolValue": "boolean", "google.protobuf.StringValue": "text",
    "google.protobuf.BytesValue": "bytea",
}  # fmt: skip
Descriptor = Any  # protobuf's own, which is made at run time


def compiled(text: str, references: Mapping[str, str]) -> bytes:
    """Return the descriptors of a schema and of what it names; raises ValueError for one that is not right, SQ4266.

    A text that begins with \\x has them already, in hexadecimal digits.
    """
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    if find_spec("grpc_tools") is None or find_spec("google.protobuf") is None:
        raise needed()
    with tempfile.TemporaryDirectory(prefix="sinkql-") as folder:
        root = Path(folder)
        for name, source in {**references, _MAIN: text}.items():
            place = PurePosixPath(name)
            if place.is_absolute() or ".." in place.parts:
                raise ValueError(f'it names "{name}", which is not a place among schemas')
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            (root / place).write_text(source, "utf-8")
        made = root / "made"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", "--include_imports",
                   f"--descriptor_set_out={made}", _MAIN]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
        if done.returncode or not made.exists():
            said = [line for line in done.stderr.splitlines() if ".proto:" in line and "warning:" not in line]
            raise ValueError(said[0].removeprefix(f"{root}/").removeprefix(f"{_MAIN}:") if said else "protoc fails")
        return made.read_bytes()


def needed() -> SinkqlError:
    """Return the error where the extra is not installed."""
    return SinkqlError(
        "SQ4266",
        "FORMAT PROTOBUF needs the Python packages protobuf and grpcio-tools, which are not installed",
        hint="Run pip install 'sinkql[protobuf]'.",
    )


class Types:
    """The types of messages that descriptors have; `main` is the file that was compiled."""

    def __init__(self, descriptors: bytes) -> None:
        """Read descriptors; raises ValueError."""
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool
            from google.protobuf.message import DecodeError
        except ImportError:
            raise needed() from None
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
            pool = descriptor_pool.DescriptorPool()
            for file in files:
                pool.Add(file)
            self._pool = pool
            self.main = pool.FindFileByName(files[-1].name)
        except (DecodeError, TypeError, KeyError, IndexError) as error:
            raise ValueError(f"its descriptors cannot be read: {error}") from None

    def named(self, name: str) -> Descriptor:
        """Return the type of a name, which may lack its package; raises ValueError."""
        package = self.main.package
        for full in (name.lstrip("."), f"{package}.{name}"):
            try:
                return self._pool.FindMessageTypeByName(full)
            except KeyError:
                continue
        raise ValueError(f'it has no message "{name}"')

    def at(self, indexes: tuple[int, ...]) -> Descriptor:
        """Return the type at a place of the file, and of a type in it; raises ValueError."""
        within: list[Any] = [self.main.message_types_by_name[each.name] for each in _proto(self.main).message_type]
        found = None
        for index in indexes:
            if not 0 <= index < len(within):
                raise ValueError("it has no message of the number that stands before it")
            found = within[index]
            within = list(found.nested_types)
        if found is None:
            raise ValueError("it has no messages")
        return found


def _proto(file: Any) -> Any:
    from google.protobuf import descriptor_pb2

    made = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(made)
    return made


def columns_of(message: Descriptor) -> tuple[logical.Column, ...]:
    """Return the columns of a message's fields; raises ValueError where it has none."""
    if not message.fields:
        raise ValueError(f"its message {message.full_name} has no fields")
    return tuple(
        logical.Column(field.name, parse_type(field_type(field, (message.full_name,))), nullable(field))
        for field in message.fields
    )


def nullable(field: Descriptor) -> bool:
    """Tell whether a message may lack a field; what has no presence is a zero then, or empty."""
    return bool(field.has_presence and not field.is_required)


def field_type(field: Descriptor, within: tuple[str, ...]) -> str:
    """Return the type of a field in SQL; messages within themselves are jsonb."""
    if is_map(field):
        value = field.message_type.fields_by_name["value"]
        inner = field_type(value, within)
        return "jsonb" if inner == "jsonb" and value.message_type is not None else str(map_type(parse_type(inner)))
    plain = _single_type(field, within)
    if not field.is_repeated:
        return plain
    return "jsonb" if plain == "jsonb" else f"{plain} list"


def is_map(field: Descriptor) -> bool:
    """Tell whether a field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _single_type(field: Descriptor, within: tuple[str, ...]) -> str:
    kind = _NAMES[field.type]
    if kind != "message":
        return _SCALARS[kind]
    inner = field.message_type
    if inner.full_name in WELL_KNOWN:
        return WELL_KNOWN[inner.full_name]
    if inner.full_name in within or not inner.fields:
        return "jsonb"
    types = [(each, field_type(each, (*within, inner.full_name))) for each in inner.fields]
    if any(type_ == "jsonb" and not _well_known(each) for each, type_ in types):
        return "jsonb"
    return str(record_type(Field(each.name, parse_type(type_), nullable(each)) for each, type_ in types))


def _well_known(field: Descriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name in WELL_KNOWN


def plan(messages: SourceMessages, planning: PlanningContext) -> FormatPlan:
    """Plan the columns of a message's fields, or those that are declared; raises SQ2470, SQ248x and SQ4266.

    The options: `schema` is a text, or descriptors in hexadecimal digits, `references` have names and texts, `message`
    is the name of the type.
    """

    registry = registry_options(messages, planning)
    schema = known(messages)
    try:
        types = Types(compiled(schema.text, schema.references))
        message = types.at((0,)) if schema.message is None else types.named(schema.message)
        columns = columns_of(message)
    except ValueError as error:
        raise unusable(messages, error) from None
    options: dict[str, Any] = {
        "schema": schema.text,
        "references": [list(each) for each in schema.references.items()],
        "message": str(message.full_name),
        **registry,
    }
    if not messages.columns:
        return FormatPlan(options, columns)
    check_declared(messages, columns)
    return FormatPlan(options)
