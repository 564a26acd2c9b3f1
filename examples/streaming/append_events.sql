-- Append events to an Iceberg table, each exactly once. The source reads new files in the folder events as they arrive.
-- Run it in this folder: sinkql exec append_events.sql

CREATE CONNECTION lake
  TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');

CREATE SOURCE events (device bigint NOT NULL, reading numeric(8,2), measured_at timestamptz NOT NULL)
  FROM FILES (PATH = 'events', GLOB = '*.json')
  FORMAT JSON;

CREATE SINK events_sink
  FROM events
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'db', TABLE = 'events')
  ENVELOPE NONE
  PARTITION BY (day(measured_at))
  WITH (COMMIT INTERVAL = '1min');
