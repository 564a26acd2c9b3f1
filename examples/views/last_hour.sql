-- Count and average the sensor readings of the last hour. Older ones leave the table and the state.
-- Run it in this folder: sinkql exec last_hour.sql

CREATE CONNECTION IF NOT EXISTS lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');

CREATE TABLE readings (
  sensor text NOT NULL,
  read_at timestamptz NOT NULL,
  value numeric(10,2) NOT NULL
);

CREATE VIEW recent_readings AS
SELECT sensor, value
FROM readings
WHERE mz_now() < read_at + INTERVAL '1 hour';

CREATE MATERIALIZED VIEW last_hour AS
SELECT sensor, COUNT(*) AS readings, AVG(value) AS average
FROM recent_readings
GROUP BY sensor;

CREATE SINK last_hour_sink
  FROM last_hour
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'views', TABLE = 'last_hour')
  KEY (sensor)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '2s');
