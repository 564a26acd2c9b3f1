"""Compile Protobuf schemas, and plan FORMAT PROTOBUF: the columns of a message type, and the decoder's options."""

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
from sinkql.connectors.confluent.schema import check_declared, invalid_schema_error, planned_schema, registry_options
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
"""The names of the type numbers in descriptors; a group, 10, is read as a message."""
WELL_KNOWN = {
    "google.protobuf.Timestamp": "timestamptz", "google.protobuf.Duration": "interval",
    "google.protobuf.Struct": "jsonb", "google.protobuf.Value": "jsonb", "google.protobuf.ListValue": "jsonb",
    "google.protobuf.DoubleValue": "double precision", "google.protobuf.FloatValue": "real",
    "google.protobuf.Int64Value": "bigint", "google.protobuf.UInt64Value": "uint8",
    "google.protobuf.Int32Value": "integer", "google.protobuf.UInt32Value": "uint4",
    "google.protobuf.BoolValue": "boolean", "google.protobuf.StringValue": "text",
    "google.protobuf.BytesValue": "bytea",
}  # fmt: skip
Descriptor = Any  # protobuf's class, which is created at run time


def compile_schema(text: str, references: Mapping[str, str]) -> bytes:
    """Return the descriptors of a schema and its references. Raise ValueError for an invalid schema, or SQ4266.

    A text that begins with \\x contains the descriptors in hexadecimal digits.
    """
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    if find_spec("grpc_tools") is None or find_spec("google.protobuf") is None:
        raise protobuf_missing()
    with tempfile.TemporaryDirectory(prefix="sinkql-") as folder:
        root = Path(folder)
        for name, source in {**references, _MAIN: text}.items():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f'it refers to "{name}", which is not a relative path')
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(source, "utf-8")
        output = root / "descriptors"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", "--include_imports",
                   f"--descriptor_set_out={output}", _MAIN]  # fmt: skip
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
        if process.returncode or not output.exists():
            errors = [line for line in process.stderr.splitlines() if ".proto:" in line and "warning:" not in line]
            raise ValueError(
                errors[0].removeprefix(f"{root}/").removeprefix(f"{_MAIN}:") if errors else "protoc failed"
            )
        return output.read_bytes()


def protobuf_missing() -> SinkqlError:
    """Return the error for an extra that is not installed."""
    return SinkqlError(
        "SQ4266",
        "FORMAT PROTOBUF needs the Python packages protobuf and grpcio-tools, which are not installed",
        hint="Run pip install 'sinkql[protobuf]'.",
    )


class Types:
    """The message types in descriptors; `main` is the file that was compiled."""

    def __init__(self, descriptors: bytes) -> None:
        """Read descriptors. Raise ValueError if they are invalid."""
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool
            from google.protobuf.message import DecodeError
        except ImportError:
            raise protobuf_missing() from None
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
            pool = descriptor_pool.DescriptorPool()
            for file in files:
                pool.Add(file)
            self._pool = pool
            self.main = pool.FindFileByName(files[-1].name)
        except (DecodeError, TypeError, KeyError, IndexError) as error:
            raise ValueError(f"its descriptors cannot be read: {error}") from None

    def find(self, name: str) -> Descriptor:
        """Return the type with a name, with or without its package. Raise ValueError if it does not exist."""
        package = self.main.package
        for full in (name.lstrip("."), f"{package}.{name}"):
            try:
                return self._pool.FindMessageTypeByName(full)
            except KeyError:
                continue
        raise ValueError(f'it has no message "{name}"')

    def at(self, indexes: tuple[int, ...]) -> Descriptor:
        """Return a type by its index in the file, followed by indexes of nested types. Raise ValueError without it."""
        candidates: list[Any] = [
            self.main.message_types_by_name[entry.name] for entry in _proto(self.main).message_type
        ]
        message = None
        for index in indexes:
            if not 0 <= index < len(candidates):
                raise ValueError("its schema has no message type with the index in its header")
            message = candidates[index]
            candidates = list(message.nested_types)
        if message is None:
            raise ValueError("it has no messages")
        return message


def _proto(file: Any) -> Any:
    from google.protobuf import descriptor_pb2

    proto = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(proto)
    return proto


def columns_of(message: Descriptor) -> tuple[logical.Column, ...]:
    """Return the columns of a message's fields. Raise ValueError if it has none."""
    if not message.fields:
        raise ValueError(f"its message {message.full_name} has no fields")
    return tuple(
        logical.Column(field.name, parse_type(field_type(field, (message.full_name,))), is_nullable(field))
        for field in message.fields
    )


def is_nullable(field: Descriptor) -> bool:
    """Return whether a missing field is NULL; a field without presence is zero or empty instead."""
    return bool(field.has_presence and not field.is_required)


def field_type(field: Descriptor, ancestors: tuple[str, ...]) -> str:
    """Return the SQL type of a field; a recursive message type is jsonb."""
    if is_map(field):
        value = field.message_type.fields_by_name["value"]
        inner = field_type(value, ancestors)
        return "jsonb" if inner == "jsonb" and value.message_type is not None else str(map_type(parse_type(inner)))
    plain = _single_type(field, ancestors)
    if not field.is_repeated:
        return plain
    return "jsonb" if plain == "jsonb" else f"{plain} list"


def is_map(field: Descriptor) -> bool:
    """Return whether a field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _single_type(field: Descriptor, ancestors: tuple[str, ...]) -> str:
    kind = _NAMES[field.type]
    if kind != "message":
        return _SCALARS[kind]
    inner = field.message_type
    if inner.full_name in WELL_KNOWN:
        return WELL_KNOWN[inner.full_name]
    if inner.full_name in ancestors or not inner.fields:
        return "jsonb"
    types = [(part, field_type(part, (*ancestors, inner.full_name))) for part in inner.fields]
    if any(type_ == "jsonb" and not _is_well_known(part) for part, type_ in types):
        return "jsonb"
    return str(record_type(Field(part.name, parse_type(type_), is_nullable(part)) for part, type_ in types))


def _is_well_known(field: Descriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name in WELL_KNOWN


def plan(messages: SourceMessages, planning: PlanningContext) -> FormatPlan:
    """Plan the columns of a message's fields, or the declared columns. Raise SQ2470, SQ248x or SQ4266.

    The planned options are `options.ProtobufOptions`.
    """
    registry = registry_options(messages, planning)
    schema = planned_schema(messages)
    try:
        types = Types(compile_schema(schema.text, schema.references))
        message = types.at((0,)) if schema.message is None else types.find(schema.message)
        columns = columns_of(message)
    except ValueError as error:
        raise invalid_schema_error(messages, error) from None
    options: dict[str, Any] = {
        "schema": schema.text,
        "references": [list(reference) for reference in schema.references.items()],
        "message": str(message.full_name),
        **registry,
    }
    if not messages.columns:
        return FormatPlan(options, columns)
    check_declared(messages, columns)
    return FormatPlan(options)
