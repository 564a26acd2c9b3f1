-- Write orders that a shop sends as HTTP requests to Iceberg tables: all events, and the current orders.
-- Run it in this folder: WEBHOOK_KEY=secret sinkql exec pipeline.sql

CREATE SECRET webhook_key AS env_var('WEBHOOK_KEY');

CREATE CONNECTION lake TO ICEBERG CATALOG (
  CATALOG TYPE = 'sql',
  WAREHOUSE = 'lake'
);

-- POST http://127.0.0.1:6876/api/webhook/materialize/public/events
CREATE SOURCE events
  FROM WEBHOOK
  BODY FORMAT JSON
  INCLUDE HEADER 'Idempotency-Key' AS event_id
  CHECK (
    WITH (HEADERS, BODY, SECRET webhook_key)
    constant_time_eq(headers->'x-signature', 'sha256=' || encode(hmac(body, webhook_key, 'sha256'), 'hex'))
  );

-- A sender that gets no answer sends the event again. With its id as the key, each event is stored once.
CREATE SINK events_sink
  FROM events
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'events')
  KEY (event_id) NOT ENFORCED
  MODE UPSERT
  WITH (COMMIT INTERVAL = '10s');

CREATE MATERIALIZED VIEW orders AS
SELECT
  (body->>'id')::bigint AS id,
  body->>'customer' AS customer,
  (body->>'amount')::numeric(12, 2) AS amount
FROM events;

CREATE SINK orders_sink
  FROM orders
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'orders')
  KEY (id) NOT ENFORCED
  MODE UPSERT
  WITH (COMMIT INTERVAL = '10s');
