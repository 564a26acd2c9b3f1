PRAGMA application_id = 1397836849;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE dependencies (
	item_id TEXT NOT NULL, 
	referenced_id TEXT NOT NULL, 
	PRIMARY KEY (item_id, referenced_id), 
	FOREIGN KEY(item_id) REFERENCES items (id) ON DELETE CASCADE, 
	FOREIGN KEY(referenced_id) REFERENCES items (id)
);
INSERT INTO "dependencies" VALUES('u4','u1');
INSERT INTO "dependencies" VALUES('u7','u6');
INSERT INTO "dependencies" VALUES('u8','u7');
INSERT INTO "dependencies" VALUES('u9','u3');
INSERT INTO "dependencies" VALUES('u9','u8');
INSERT INTO "dependencies" VALUES('u9','u5');
CREATE TABLE desired (
	sink_id TEXT NOT NULL, 
	desired TEXT NOT NULL, 
	changed_at TEXT NOT NULL, 
	PRIMARY KEY (sink_id)
);
INSERT INTO "desired" VALUES('384de34b-35a7-4026-99e4-43a9a0bd3d31','running','2026-11-21 13:43:41.367122+00:00');
CREATE TABLE identity (
	catalog_id TEXT NOT NULL, 
	generation INTEGER NOT NULL, 
	PRIMARY KEY (catalog_id)
);
INSERT INTO "identity" VALUES('05f30987-badb-4176-89da-5de323f5c3d0',10);
CREATE TABLE items (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id TEXT NOT NULL, 
	database_name TEXT, 
	schema_name TEXT, 
	name TEXT NOT NULL, 
	full_name TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	create_sql TEXT NOT NULL, 
	redacted_sql TEXT NOT NULL, 
	facts TEXT NOT NULL, 
	details TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	UNIQUE (id), 
	UNIQUE (full_name)
);
INSERT INTO "items" VALUES(1,'u1','materialize','public','word','materialize.public.word','SECRET','CREATE SECRET materialize.public.word
  AS ''<redacted>'';','CREATE SECRET materialize.public.word
  AS ''<redacted>'';','{}','{}','2026-11-21 13:43:39.421749+00:00');
INSERT INTO "items" VALUES(2,'u2','materialize','public','there','materialize.public.there','SECRET','CREATE SECRET materialize.public.there
  AS env_var(''HOME'');','CREATE SECRET materialize.public.there
  AS env_var(''HOME'');','{}','{}','2026-11-21 13:43:39.495146+00:00');
INSERT INTO "items" VALUES(3,'u3','materialize','public','lake','materialize.public.lake','CONNECTION','CREATE CONNECTION materialize.public.lake
  TO ICEBERG CATALOG (CATALOG TYPE = ''sql'', WAREHOUSE = ''lake'');','CREATE CONNECTION materialize.public.lake
  TO ICEBERG CATALOG (CATALOG TYPE = ''sql'', WAREHOUSE = ''lake'');','{}','{"type": "iceberg-catalog"}','2026-11-21 13:43:40.896469+00:00');
INSERT INTO "items" VALUES(4,'u4','materialize','public','aws','materialize.public.aws','CONNECTION','CREATE CONNECTION materialize.public.aws
  TO AWS (ACCESS KEY ID = ''AK'', SECRET ACCESS KEY = SECRET materialize.public.word, REGION = ''us-east-1'');','CREATE CONNECTION materialize.public.aws
  TO AWS (
    ACCESS KEY ID = ''<redacted>'',
    SECRET ACCESS KEY = SECRET materialize.public.word,
    REGION = ''us-east-1''
  );','{}','{"type": "aws"}','2026-11-21 13:43:40.951296+00:00');
INSERT INTO "items" VALUES(5,'u5',NULL,NULL,'small','small','CLUSTER','CREATE CLUSTER small (SIZE = ''local[1]'');','CREATE CLUSTER small (SIZE = ''local[1]'');','{}','{"size": "local[1]", "master": "local[1]"}','2026-11-21 13:43:40.994842+00:00');
INSERT INTO "items" VALUES(6,'u6','materialize','public','n','materialize.public.n','SOURCE','CREATE SOURCE materialize.public.n
  FROM LOAD GENERATOR COUNTER (UP TO = 10);','CREATE SOURCE materialize.public.n
  FROM LOAD GENERATOR COUNTER (UP TO = 10);','{}','{"type": "load-generator", "connection_id": null, "envelope_type": "none", "value_format": null, "cluster_id": null, "columns": [{"name": "counter", "type": "bigint", "nullable": 0}]}','2026-11-21 13:43:41.034672+00:00');
INSERT INTO "items" VALUES(7,'u7','materialize','public','v','materialize.public.v','VIEW','CREATE VIEW materialize.public.v
  AS SELECT n.counter, n.counter % 3 AS rest FROM materialize.public.n;','CREATE VIEW materialize.public.v
  AS SELECT n.counter, n.counter % 3 AS rest FROM materialize.public.n;','{}','{"definition": "SELECT n.counter, n.counter % 3 AS rest FROM materialize.public.n", "cluster_id": null, "columns": [{"name": "counter", "type": "bigint", "nullable": 0}, {"name": "rest", "type": "bigint", "nullable": 0}]}','2026-11-21 13:43:41.224717+00:00');
INSERT INTO "items" VALUES(8,'u8','materialize','public','m','materialize.public.m','MATERIALIZED VIEW','CREATE MATERIALIZED VIEW materialize.public.m
  IN CLUSTER quickstart
  AS SELECT rest, count(*) AS many FROM materialize.public.v GROUP BY rest;','CREATE MATERIALIZED VIEW materialize.public.m
  IN CLUSTER quickstart
  AS SELECT rest, count(*) AS many FROM materialize.public.v GROUP BY rest;','{}','{"definition": "SELECT rest, count(*) AS many FROM materialize.public.v GROUP BY rest", "cluster_id": "s1", "columns": [{"name": "rest", "type": "bigint", "nullable": 0}, {"name": "many", "type": "bigint", "nullable": 0}]}','2026-11-21 13:43:41.294497+00:00');
INSERT INTO "items" VALUES(9,'u9','materialize','public','s','materialize.public.s','SINK','CREATE SINK materialize.public.s
  IN CLUSTER small
  FROM materialize.public.m
  INTO ICEBERG CATALOG CONNECTION materialize.public.lake (NAMESPACE = ''a'', TABLE = ''b'')
  KEY (rest)
  MODE UPSERT
  WITH (COMMIT INTERVAL = ''1s'');','CREATE SINK materialize.public.s
  IN CLUSTER small
  FROM materialize.public.m
  INTO ICEBERG CATALOG CONNECTION materialize.public.lake (NAMESPACE = ''a'', TABLE = ''b'')
  KEY (rest)
  MODE UPSERT
  WITH (COMMIT INTERVAL = ''1s'');','{"table": null, "sink_id": "384de34b-35a7-4026-99e4-43a9a0bd3d31"}','{"type": "iceberg", "connection_id": "u3", "envelope_type": "upsert", "cluster_id": "u5", "namespace": "a", "table": "b", "sink_id": "384de34b-35a7-4026-99e4-43a9a0bd3d31"}','2026-11-21 13:43:41.366545+00:00');
CREATE TABLE journal (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	intent TEXT NOT NULL, 
	content TEXT NOT NULL, 
	host TEXT NOT NULL, 
	pid INTEGER NOT NULL, 
	process TEXT NOT NULL, 
	started_at TEXT NOT NULL, 
	done_at TEXT
);
CREATE TABLE leases (
	sink_id TEXT NOT NULL, 
	epoch INTEGER NOT NULL, 
	owner TEXT, 
	host TEXT NOT NULL, 
	pid INTEGER NOT NULL, 
	process TEXT NOT NULL, 
	expires FLOAT NOT NULL, 
	PRIMARY KEY (sink_id)
);
CREATE TABLE progress (
	sink_id TEXT NOT NULL, 
	messages INTEGER NOT NULL, 
	bytes INTEGER NOT NULL, 
	failed_rows INTEGER NOT NULL, 
	commits INTEGER NOT NULL, 
	epoch INTEGER NOT NULL, 
	snapshot INTEGER, 
	lag FLOAT, 
	offsets TEXT NOT NULL, 
	committed_at TEXT NOT NULL, 
	PRIMARY KEY (sink_id)
);
CREATE TABLE secrets (
	item_id TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	reference TEXT, 
	nonce BLOB, 
	ciphertext BLOB, 
	PRIMARY KEY (item_id), 
	FOREIGN KEY(item_id) REFERENCES items (id) ON DELETE CASCADE
);
INSERT INTO "secrets" VALUES('u1',1,'literal',NULL,X'932A6443126F5B722CB54327',X'6214161653D5A7A1B7DB8691BE287A42564E319EC8C4213080600C');
INSERT INTO "secrets" VALUES('u2',1,'env_var','HOME',NULL,NULL);
CREATE TABLE settings (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "settings" VALUES('cluster','small');
CREATE TABLE status_history (
	number INTEGER NOT NULL, 
	sink_id TEXT NOT NULL, 
	status TEXT NOT NULL, 
	error TEXT, 
	hint TEXT, 
	details TEXT, 
	occurred_at TEXT NOT NULL, 
	PRIMARY KEY (number)
);
CREATE TABLE statuses (
	sink_id TEXT NOT NULL, 
	status TEXT NOT NULL, 
	error TEXT, 
	hint TEXT, 
	details TEXT, 
	changed_at TEXT NOT NULL, 
	PRIMARY KEY (sink_id)
);
CREATE INDEX status_history_by_sink ON status_history (sink_id, number);
CREATE VIEW "mz_sinks" AS
SELECT
  i.id AS "id",
  NULL AS "oid",
  'u1' AS "schema_id",
  i.name AS "name",
  json_extract(i.details, '$.type') AS "type",
  json_extract(i.details, '$.connection_id') AS "connection_id",
  NULL AS "size",
  json_extract(i.details, '$.envelope_type') AS "envelope_type",
  NULL AS "format",
  NULL AS "key_format",
  NULL AS "value_format",
  json_extract(i.details, '$.cluster_id') AS "cluster_id",
  NULL AS "owner_id",
  i.create_sql AS "create_sql",
  i.redacted_sql AS "redacted_create_sql"
FROM items AS i
WHERE i.kind IN ('SINK');
CREATE VIEW "mz_iceberg_sinks" AS
SELECT
  i.id AS "id",
  json_extract(i.details, '$.namespace') AS "namespace",
  json_extract(i.details, '$.table') AS "table"
FROM items AS i
WHERE i.kind IN ('SINK')
  AND json_extract(i.details, '$.type') = 'iceberg';
CREATE VIEW "mz_connections" AS
SELECT
  i.id AS "id",
  NULL AS "oid",
  'u1' AS "schema_id",
  i.name AS "name",
  json_extract(i.details, '$.type') AS "type",
  NULL AS "owner_id",
  NULL AS "privileges",
  i.create_sql AS "create_sql",
  i.redacted_sql AS "redacted_create_sql"
FROM items AS i
WHERE i.kind IN ('CONNECTION');
CREATE VIEW "mz_sources" AS
SELECT
  i.id AS "id",
  NULL AS "oid",
  'u1' AS "schema_id",
  i.name AS "name",
  json_extract(i.details, '$.type') AS "type",
  json_extract(i.details, '$.connection_id') AS "connection_id",
  NULL AS "size",
  json_extract(i.details, '$.envelope_type') AS "envelope_type",
  NULL AS "key_format",
  json_extract(i.details, '$.value_format') AS "value_format",
  json_extract(i.details, '$.cluster_id') AS "cluster_id",
  NULL AS "owner_id",
  NULL AS "privileges",
  i.create_sql AS "create_sql",
  i.redacted_sql AS "redacted_create_sql"
FROM items AS i
WHERE i.kind IN ('SOURCE');
CREATE VIEW "mz_views" AS
SELECT
  i.id AS "id",
  NULL AS "oid",
  'u1' AS "schema_id",
  i.name AS "name",
  json_extract(i.details, '$.definition') AS "definition",
  NULL AS "owner_id",
  NULL AS "privileges",
  i.create_sql AS "create_sql",
  i.redacted_sql AS "redacted_create_sql"
FROM items AS i
WHERE i.kind IN ('VIEW');
CREATE VIEW "mz_materialized_views" AS
SELECT
  i.id AS "id",
  NULL AS "oid",
  'u1' AS "schema_id",
  i.name AS "name",
  json_extract(i.details, '$.cluster_id') AS "cluster_id",
  json_extract(i.details, '$.definition') AS "definition",
  NULL AS "owner_id",
  NULL AS "privileges",
  i.create_sql AS "create_sql",
  i.redacted_sql AS "redacted_create_sql"
FROM items AS i
WHERE i.kind IN ('MATERIALIZED VIEW');
CREATE VIEW "mz_secrets" AS
SELECT
  i.id AS "id",
  NULL AS "oid",
  'u1' AS "schema_id",
  i.name AS "name",
  NULL AS "owner_id",
  NULL AS "privileges"
FROM items AS i
WHERE i.kind IN ('SECRET');
CREATE VIEW "mz_clusters" AS
SELECT
  i."id" AS "id",
  i."name" AS "name",
  NULL AS "owner_id",
  NULL AS "privileges",
  i."managed" AS "managed",
  i."size" AS "size",
  i."replication_factor" AS "replication_factor",
  NULL AS "disk",
  NULL AS "availability_zones",
  NULL AS "introspection_debugging",
  NULL AS "introspection_interval"
FROM (
  SELECT 's1' AS id, 'quickstart' AS name, 1 AS managed, 'local[*]' AS size,
    1 AS replication_factor
  UNION ALL
  SELECT id, name, json_extract(details, '$.size') IS NOT NULL, json_extract(details, '$.size'), 1
  FROM items WHERE kind = 'CLUSTER'
) AS i;
CREATE VIEW "mz_columns" AS
SELECT
  i.id AS "id",
  json_extract(c.value, '$.name') AS "name",
  c.key + 1 AS "position",
  json_extract(c.value, '$.nullable') AS "nullable",
  json_extract(c.value, '$.type') AS "type",
  NULL AS "default",
  NULL AS "type_oid",
  NULL AS "type_mod"
FROM items AS i, json_each(i.details, '$.columns') AS c
WHERE i.kind IN ('SOURCE', 'VIEW', 'MATERIALIZED VIEW');
CREATE VIEW "mz_objects" AS
SELECT
  i.id AS "id",
  NULL AS "oid",
  'u1' AS "schema_id",
  i.name AS "name",
  CASE i.kind
    WHEN 'MATERIALIZED VIEW' THEN 'materialized-view'
    ELSE lower(i.kind)
  END AS "type",
  NULL AS "owner_id",
  json_extract(i.details, '$.cluster_id') AS "cluster_id",
  NULL AS "privileges"
FROM items AS i
WHERE i.kind <> 'CLUSTER';
CREATE VIEW "mz_relations" AS
SELECT
  i.id AS "id",
  NULL AS "oid",
  'u1' AS "schema_id",
  i.name AS "name",
  CASE i.kind
    WHEN 'MATERIALIZED VIEW' THEN 'materialized-view'
    ELSE lower(i.kind)
  END AS "type",
  NULL AS "owner_id",
  json_extract(i.details, '$.cluster_id') AS "cluster_id",
  NULL AS "privileges"
FROM items AS i
WHERE i.kind IN ('SOURCE', 'VIEW', 'MATERIALIZED VIEW');
CREATE VIEW "mz_databases" AS
SELECT
  i."id" AS "id",
  NULL AS "oid",
  i."name" AS "name",
  NULL AS "owner_id",
  NULL AS "privileges"
FROM (SELECT 'u1' AS id, 'materialize' AS name) AS i;
CREATE VIEW "mz_schemas" AS
SELECT
  i."id" AS "id",
  NULL AS "oid",
  i."database_id" AS "database_id",
  i."name" AS "name",
  NULL AS "owner_id",
  NULL AS "privileges"
FROM (
  SELECT 'u1' AS id, 'u1' AS database_id, 'public' AS name
  UNION ALL SELECT 's1', NULL, 'mz_catalog'
  UNION ALL SELECT 's2', NULL, 'mz_internal'
) AS i;
CREATE VIEW "mz_object_dependencies" AS
SELECT
  d.item_id AS "object_id",
  d.referenced_id AS "referenced_object_id"
FROM dependencies AS d;
CREATE VIEW "mz_sink_statuses" AS
SELECT
  i.id AS "id",
  i.name AS "name",
  json_extract(i.details, '$.type') AS "type",
  coalesce(s.changed_at, i.created_at) AS "last_status_change_at",
  CASE WHEN s.status IN ('starting', 'running', 'paused') AND l.sink_id IS NOT NULL AND (l.owner IS NULL OR l.expires < (julianday('now') - 2440587.5) * 86400.0) THEN 'failed' ELSE coalesce(s.status, 'created') END AS "status",
  CASE WHEN s.status IN ('starting', 'running', 'paused') AND l.sink_id IS NOT NULL AND (l.owner IS NULL OR l.expires < (julianday('now') - 2440587.5) * 86400.0) THEN 'the process that ran it is gone (pid ' || l.pid || ' on ' || l.host || ')' ELSE s.error END AS "error",
  coalesce(s.details, CASE WHEN s.hint IS NOT NULL THEN json_object('hint', s.hint) END) AS "details",
  s.hint AS "hint"
FROM items AS i
LEFT JOIN statuses AS s ON s.sink_id = json_extract(i.details, '$.sink_id')
LEFT JOIN leases AS l ON l.sink_id = json_extract(i.details, '$.sink_id')
WHERE i.kind = 'SINK';
CREATE VIEW "mz_sink_status_history" AS
SELECT
  h.occurred_at AS "occurred_at",
  i.id AS "sink_id",
  h."status" AS "status",
  h."error" AS "error",
  h."details" AS "details",
  NULL AS "replica_id",
  h.hint AS "hint"
FROM status_history AS h
JOIN items AS i ON i.kind = 'SINK' AND json_extract(i.details, '$.sink_id') = h.sink_id;
CREATE VIEW "mz_sink_statistics" AS
SELECT
  i.id AS "id",
  NULL AS "replica_id",
  coalesce(p.messages, 0) AS "messages_staged",
  coalesce(p.messages, 0) AS "messages_committed",
  coalesce(p.bytes, 0) AS "bytes_staged",
  coalesce(p.bytes, 0) AS "bytes_committed"
FROM items AS i
LEFT JOIN progress AS p ON p.sink_id = json_extract(i.details, '$.sink_id')
WHERE i.kind = 'SINK';
CREATE VIEW "mz_sink_progress" AS
SELECT
  i.id AS "id",
  d.desired AS "desired",
  p."commits" AS "commits",
  p."failed_rows" AS "failed_rows",
  p."epoch" AS "epoch",
  p."snapshot" AS "snapshot",
  p."lag" AS "lag",
  p."offsets" AS "offsets",
  p."committed_at" AS "committed_at"
FROM items AS i
LEFT JOIN progress AS p ON p.sink_id = json_extract(i.details, '$.sink_id')
LEFT JOIN desired AS d ON d.sink_id = json_extract(i.details, '$.sink_id')
WHERE i.kind = 'SINK';
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('items',9);
COMMIT;
