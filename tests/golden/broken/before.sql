CREATE SECRET token AS 'what nobody should see';
CREATE CONNECTION aws TO AWS (ACCESS KEY ID = 'k', SECRET ACCESS KEY = SECRET token, REGION = 'eu-west-1');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'memory') WITH (VALIDATE = false);
CREATE CLUSTER jobs (SIZE = 'local[1]');
CREATE SOURCE orders (id bigint NOT NULL, customer text, amount numeric(10, 2), status text, created_at timestamp)
  FROM FILES (PATH = 'in') FORMAT JSON;
CREATE SOURCE clicks (url text, user_id bigint, clicked_at timestamp) FROM FILES (PATH = 'clicks') FORMAT CSV;
CREATE VIEW big AS SELECT id, amount FROM orders WHERE amount > 100;
CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer;
