"""A manifest contains its schema and the schema's id, as the Iceberg specification requires."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestEntry
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from sinkql.connectors.iceberg.file.manifest import ManifestWriter

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("deletes", [False, True])
def test_a_manifest_has_its_schema_and_the_schemas_id(tmp_path: Path, *, deletes: bool) -> None:
    schema, files = Schema(NestedField(1, "id", LongType(), required=True), schema_id=7), PyArrowFileIO()
    path = str(tmp_path / "manifest.avro")
    spec = UNPARTITIONED_PARTITION_SPEC
    writer = ManifestWriter(spec, schema, files.new_output(path), 5, version=2, deletes=deletes)
    with writer.new_writer():
        pass
    with AvroFile[ManifestEntry](files.new_input(path)) as read:
        found = read.header.meta
    assert (found["schema-id"], found["content"]) == ("7", "deletes" if deletes else "data")
    assert json.loads(found["schema"])["schema-id"] == 7
