-- Find the three products with the highest revenue in each category.
-- Run it in this folder: sinkql exec top_products.sql --once

CREATE CONNECTION IF NOT EXISTS lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');

CREATE TABLE sales (
  sale_id bigint NOT NULL,
  category text NOT NULL,
  product text NOT NULL,
  amount numeric(12,2) NOT NULL,
  PRIMARY KEY (sale_id)
);

INSERT INTO sales VALUES
  (1, 'tea', 'green', 5.00), (2, 'tea', 'black', 9.50), (3, 'tea', 'white', 7.25), (4, 'tea', 'green', 6.00),
  (5, 'tea', 'mint', 1.00), (6, 'rice', 'basmati', 4.00), (7, 'rice', 'jasmine', 4.50);

CREATE VIEW revenue AS
SELECT category, product, SUM(amount) AS revenue
FROM sales
GROUP BY category, product;

CREATE MATERIALIZED VIEW top_products AS
SELECT category, place, product, revenue
FROM (
  SELECT
    category,
    product,
    revenue,
    ROW_NUMBER() OVER (PARTITION BY category ORDER BY revenue DESC, product) AS place
  FROM revenue
) AS ranked
WHERE place <= 3;

CREATE SINK top_products_sink
  FROM top_products
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'views', TABLE = 'top_products')
  KEY (category, place)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '2s');
