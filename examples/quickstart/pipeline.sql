-- Write events from JSON files to Iceberg tables: all events, and a summary by user and hour.
-- Run it in this folder: sinkql exec pipeline.sql

CREATE CONNECTION lake TO ICEBERG CATALOG (
  CATALOG TYPE = 'sql',
  WAREHOUSE = 'lake'
);

CREATE SOURCE user_events (
  user_id bigint NOT NULL,
  session_id text NOT NULL,
  action text,
  event_timestamp timestamp NOT NULL
)
  FROM FILES (PATH = 'events', GLOB = '*.json')
  FORMAT JSON;

CREATE MATERIALIZED VIEW user_activity_summary AS
SELECT
  user_id,
  DATE_TRUNC('hour', event_timestamp) AS hour,
  COUNT(*) AS event_count,
  COUNT(DISTINCT session_id) AS session_count,
  MAX(event_timestamp) AS last_event_time
FROM user_events
GROUP BY user_id, DATE_TRUNC('hour', event_timestamp);

CREATE SINK user_activity
  FROM user_activity_summary
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'analytics', TABLE = 'user_activity')
  KEY (user_id, hour)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '2s');

CREATE SINK events
  FROM user_events
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'analytics', TABLE = 'events')
  ENVELOPE NONE
  WITH (COMMIT INTERVAL = '2s');
