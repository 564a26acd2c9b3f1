-- Keep the current row of each customer from a log of changes, each of which has the whole row.
-- Run it in this folder: sinkql exec latest_row.sql --once

CREATE CONNECTION IF NOT EXISTS lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');

CREATE TABLE customer_log (
  position bigint NOT NULL,
  operation text NOT NULL,
  customer_id bigint NOT NULL,
  name text,
  city text
);

INSERT INTO customer_log VALUES
  (1, 'insert', 1, 'Ann', 'Oslo'),
  (2, 'insert', 2, 'Ben', 'Bern'),
  (3, 'update', 1, 'Ann', 'Rome'),
  (4, 'delete', 2, NULL, NULL),
  (5, 'insert', 3, 'Cleo', 'Lima');

CREATE VIEW latest_changes AS
SELECT DISTINCT ON (customer_id) customer_id, operation, name, city
FROM customer_log
ORDER BY customer_id, position DESC;

-- Deletions must be removed after the latest change of each customer was found, not before.
CREATE MATERIALIZED VIEW current_customers AS
SELECT customer_id, name, city
FROM latest_changes
WHERE operation <> 'delete';

CREATE SINK current_customers_sink
  FROM current_customers
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'views', TABLE = 'current_customers')
  KEY (customer_id)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '2s');
