-- Convert each order by the exchange rate that was valid when it was placed.
-- Run it in this folder: sinkql exec as_of_join.sql --once

CREATE CONNECTION IF NOT EXISTS lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');

CREATE TABLE orders (
  order_id bigint NOT NULL,
  currency text NOT NULL,
  amount numeric(12,2) NOT NULL,
  placed_at timestamp NOT NULL,
  PRIMARY KEY (order_id)
);

CREATE TABLE rates (
  currency text NOT NULL,
  since timestamp NOT NULL,
  rate numeric(12,6) NOT NULL,
  PRIMARY KEY (currency, since)
);

INSERT INTO orders VALUES
  (1, 'CHF', 100.00, '2026-03-01 12:00:00'), (2, 'CHF', 100.00, '2026-03-03 12:00:00'),
  (3, 'NOK', 500.00, '2026-03-01 12:00:00');

INSERT INTO rates VALUES
  ('CHF', '2026-03-01 00:00:00', 1.050000), ('CHF', '2026-03-02 00:00:00', 1.060000);

-- A rate that arrives late changes the orders that it applies to. An order without a rate has NULL.
CREATE MATERIALIZED VIEW orders_in_euro AS
SELECT o.order_id, o.currency, o.amount, r.rate, o.amount * r.rate AS euro
FROM orders AS o
LEFT JOIN LATERAL (
  SELECT rate
  FROM rates
  WHERE currency = o.currency AND since <= o.placed_at
  ORDER BY since DESC
  LIMIT 1
) AS r ON true;

CREATE SINK orders_in_euro_sink
  FROM orders_in_euro
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'views', TABLE = 'orders_in_euro')
  KEY (order_id)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '2s');
