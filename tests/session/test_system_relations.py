"""Every system relation has the columns that the dialect defines."""

from __future__ import annotations

import pytest

from sinkql.session import Session

_CATALOG = """
mz_sinks: id oid schema_id name type connection_id size envelope_type format key_format value_format cluster_id owner_id create_sql redacted_create_sql
mz_iceberg_sinks: id namespace table branch
mz_kafka_sinks: id topic
mz_connections: id oid schema_id name type owner_id privileges create_sql redacted_create_sql
mz_sources: id oid schema_id name type connection_id size envelope_type key_format value_format cluster_id owner_id privileges create_sql redacted_create_sql
mz_tables: id oid schema_id name owner_id privileges create_sql redacted_create_sql source_id
mz_views: id oid schema_id name definition owner_id privileges create_sql redacted_create_sql
mz_materialized_views: id oid schema_id name cluster_id definition owner_id privileges create_sql redacted_create_sql
mz_indexes: id oid name on_id cluster_id owner_id create_sql redacted_create_sql
mz_columns: id name position nullable type default type_oid type_mod
mz_objects: id oid schema_id name type owner_id cluster_id privileges
mz_relations: id oid schema_id name type owner_id cluster_id privileges
mz_schemas: id oid database_id name owner_id privileges
mz_databases: id oid name owner_id privileges
mz_secrets: id oid schema_id name owner_id privileges
mz_clusters: id name owner_id privileges managed size replication_factor disk availability_zones introspection_debugging introspection_interval
mz_cluster_replicas: id name cluster_id size availability_zone owner_id disk
mz_kafka_connections: id brokers sink_progress_topic
mz_ssh_tunnel_connections: id public_key_1 public_key_2
mz_aws_privatelink_connections: id principal
mz_kafka_sources: id group_id_prefix topic
mz_audit_events: id event_type object_type details user occurred_at
"""  # noqa: E501 a line a relation
_INTERNAL = """
mz_sink_statuses: id name type last_status_change_at status error details hint
mz_sink_status_history: occurred_at sink_id status error details replica_id hint
mz_sink_statistics: id replica_id messages_staged messages_committed bytes_staged bytes_committed
mz_source_statuses: id name type last_status_change_at status error details
mz_source_status_history: occurred_at source_id status error details replica_id
mz_source_statistics: id replica_id messages_received bytes_received updates_staged updates_committed records_indexed bytes_indexed rehydration_latency snapshot_records_known snapshot_records_staged snapshot_committed offset_known offset_committed
mz_aws_connections: id endpoint region access_key_id access_key_id_secret_id secret_access_key_secret_id session_token session_token_secret_id assume_role_arn assume_role_session_name principal external_id example_trust_policy
mz_comments: id object_type object_sub_id comment
mz_object_dependencies: object_id referenced_object_id
mz_hydration_statuses: object_id replica_id hydrated
mz_frontiers: object_id read_frontier write_frontier
mz_object_fully_qualified_names: id name object_type schema_id schema_name database_id database_name cluster_id
mz_object_lifetimes: id previous_id object_type event_type occurred_at
mz_notices: id notice_type message hint action
mz_webhook_sources: id name url
mz_postgres_sources: id replication_slot timeline_id
mz_postgres_source_tables: id schema_name table_name
mz_mysql_source_tables: id schema_name table_name
"""  # noqa: E501 a line a relation


@pytest.mark.parametrize(("schema", "listed"), [("mz_catalog", _CATALOG), ("mz_internal", _INTERNAL)])
def test_relations_have_the_dialects_columns(session: Session, schema: str, listed: str) -> None:
    wanted = dict(line.split(": ") for line in listed.strip().splitlines())
    found = {name: " ".join(session.execute(f"SELECT * FROM {schema}.{name};")[0].columns) for name in wanted}
    assert wanted == found


def test_connections_to_aws_tell_where_their_keys_are(session: Session) -> None:
    session.execute(
        "CREATE SECRET s AS 'x'; CREATE CONNECTION a TO AWS (ACCESS KEY ID = SECRET s, SECRET ACCESS KEY = SECRET s,"
        " REGION = 'eu-west-1'); CREATE CONNECTION r TO AWS (ACCESS KEY ID = 'AK', SECRET ACCESS KEY = SECRET s);"
    )
    query = (
        "SELECT region, access_key_id, access_key_id_secret_id, secret_access_key_secret_id, assume_role_arn"
        " FROM mz_internal.mz_aws_connections ORDER BY id"
    )
    assert list(session.execute(query)[0].rows) == [
        ("eu-west-1", None, "u1", "u1", None),
        (None, None, None, "u1", None),
    ]


def test_columns_of_nested_types_and_ranges_have_the_oids_of_postgres(session: Session) -> None:
    oids = {
        "integer[]": 1007, "integer[][]": 1007, "numeric(6,2)[]": 1231, "numeric(6,2)": 1700, "text list list": 16384,
        "int4range": 3904, "tstzrange[]": 3911, "uint4[]": 16463, "interval[]": 1187,
    }  # fmt: skip
    declared = ", ".join(f"c{place} {type_}" for place, type_ in enumerate(oids))
    session.execute(f"CREATE TABLE t ({declared})")
    (found,) = session.execute("SELECT type, type_oid FROM mz_columns WHERE id LIKE 'u%' ORDER BY position")
    assert dict(found.rows) == oids
    (found,) = session.execute(
        "SELECT data_type, udt_name, numeric_precision FROM information_schema.columns WHERE table_name = 't'"
        " AND column_name IN ('c2', 'c3') ORDER BY column_name"
    )
    assert found.rows == (("numeric(6,2)[]", "_numeric", None), ("numeric", "numeric", 6))
