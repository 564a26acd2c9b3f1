-- Join order lines with customers and products to one wide table.
-- Run it in this folder: sinkql exec star_schema.sql --once

CREATE CONNECTION IF NOT EXISTS lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');

CREATE TABLE buyers (buyer_id bigint NOT NULL, name text, country text, PRIMARY KEY (buyer_id));
CREATE TABLE products (product_id bigint NOT NULL, title text, category text, PRIMARY KEY (product_id));
CREATE TABLE lines (
  line_id bigint NOT NULL,
  buyer_id bigint,
  product_id bigint,
  quantity integer NOT NULL,
  unit_price numeric(10,2) NOT NULL,
  PRIMARY KEY (line_id)
);

INSERT INTO buyers VALUES (1, 'Ann', 'NO'), (2, 'Ben', 'CH');
INSERT INTO products VALUES (10, 'Green tea', 'tea'), (11, 'Basmati', 'rice');
INSERT INTO lines VALUES (100, 1, 10, 2, 2.50), (101, 2, 11, 1, 1.20), (102, 1, 12, 3, 4.00);

-- LEFT JOIN: a line appears immediately, even without its product, and is completed when the product arrives.
CREATE MATERIALIZED VIEW sales_wide AS
SELECT
  l.line_id,
  l.quantity,
  l.quantity * l.unit_price AS amount,
  b.name AS buyer,
  b.country,
  p.title AS product,
  p.category
FROM lines AS l
LEFT JOIN buyers AS b ON b.buyer_id = l.buyer_id
LEFT JOIN products AS p ON p.product_id = l.product_id;

CREATE SINK sales_wide_sink
  FROM sales_wide
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'views', TABLE = 'sales_wide')
  KEY (line_id)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '2s');
