-- Turn price changes into a slowly changing dimension: each price with the period in which it was valid.
-- Run it in this folder: sinkql exec price_history.sql --once

CREATE CONNECTION IF NOT EXISTS lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');

CREATE TABLE prices_set (
  product text NOT NULL,
  set_at timestamp NOT NULL,
  price numeric(10,2) NOT NULL,
  PRIMARY KEY (product, set_at)
);

INSERT INTO prices_set VALUES
  ('tea', '2026-01-01 00:00:00', 2.50), ('tea', '2026-02-15 00:00:00', 2.80), ('rice', '2026-01-01 00:00:00', 1.20);

-- A price that arrives late ends the period of the price before it.
CREATE MATERIALIZED VIEW price_history AS
SELECT
  product,
  set_at AS valid_from,
  LEAD(set_at) OVER (PARTITION BY product ORDER BY set_at) AS valid_to,
  price
FROM prices_set;

CREATE SINK price_history_sink
  FROM price_history
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'views', TABLE = 'price_history')
  KEY (product, valid_from)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '2s');
