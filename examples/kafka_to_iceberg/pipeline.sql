-- Write two Kafka topics to Iceberg tables: all orders, the current customers, and the sales of each country.
-- Run it in this folder: sinkql exec pipeline.sql

CREATE CONNECTION kafka TO KAFKA (
  BROKER 'localhost:9092',
  SECURITY PROTOCOL = 'PLAINTEXT'
);

CREATE CONNECTION lake TO ICEBERG CATALOG (
  CATALOG TYPE = 'sql',
  WAREHOUSE = 'lake'
);

-- {"id": 1, "customer": "c1", "country": "SE", "amount": 12.5, "ordered_at": "2026-03-01T12:00:00Z"}
CREATE SOURCE orders (
  id bigint NOT NULL,
  customer text,
  country text,
  amount numeric(12, 2),
  ordered_at timestamptz
)
  FROM KAFKA CONNECTION kafka (TOPIC 'orders')
  FORMAT JSON
  INCLUDE PARTITION, OFFSET, TIMESTAMP AS sent_at
  WITH (ON ERROR = SKIP);

-- Key c1, value {"name": "Ann", "email": "ann@example.com"}; a message without a value deletes the customer.
CREATE SOURCE customers (
  id text,
  name text,
  email text,
  PRIMARY KEY (id) NOT ENFORCED
)
  FROM KAFKA CONNECTION kafka (TOPIC 'customers')
  KEY FORMAT TEXT
  VALUE FORMAT JSON
  ENVELOPE UPSERT;

CREATE MATERIALIZED VIEW sales AS
SELECT country, count(*) AS orders, sum(amount) AS amount
FROM orders
GROUP BY country;

CREATE SINK orders_sink
  FROM orders
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'orders')
  ENVELOPE NONE
  WITH (COMMIT INTERVAL = '10s');

CREATE SINK customers_sink
  FROM customers
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'customers')
  KEY (id)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '10s');

CREATE SINK sales_sink
  FROM sales
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'sales')
  KEY (country)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '10s');
