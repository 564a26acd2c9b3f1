-- Deduplicate events that may have been sent several times: the first delivery of each counts.
-- Run it in this folder: sinkql exec first_delivery.sql --once

CREATE CONNECTION IF NOT EXISTS lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');

CREATE TABLE deliveries (
  event_id text NOT NULL,
  received_at timestamptz NOT NULL,
  payload jsonb
);

INSERT INTO deliveries VALUES
  ('e1', '2026-03-01 10:00:00+00', '{"n": 1}'),
  ('e2', '2026-03-01 10:00:01+00', '{"n": 2}'),
  ('e1', '2026-03-01 10:00:05+00', '{"n": 1}');

CREATE MATERIALIZED VIEW events_once AS
SELECT event_id, received_at, payload
FROM (
  SELECT
    event_id,
    received_at,
    payload,
    ROW_NUMBER() OVER (PARTITION BY event_id ORDER BY received_at) AS delivery
  FROM deliveries
) AS numbered
WHERE delivery = 1;

CREATE SINK events_once_sink
  FROM events_once
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'views', TABLE = 'events_once')
  KEY (event_id)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '2s');
