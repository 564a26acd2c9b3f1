-- Write the current users of a Postgres database, and how much each of them has spent, to Iceberg tables.
CREATE SECRET pg_password AS env_var('PGPASSWORD');
CREATE CONNECTION pg_conn TO POSTGRES (
  HOST 'localhost',
  PORT 5432,
  DATABASE 'shop',
  USER 'sinkql',
  PASSWORD SECRET pg_password
);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');

CREATE SOURCE shop
  FROM POSTGRES CONNECTION pg_conn (PUBLICATION 'mz_source')
  FOR TABLES (public.users, public.orders);

CREATE SINK users_sink
  FROM users
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'users')
  KEY (id)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '10s');

CREATE MATERIALIZED VIEW spending AS
  SELECT user_id, count(*) AS orders, sum(amount) AS amount
  FROM orders
  GROUP BY user_id;

CREATE SINK spending_sink
  FROM spending
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'spending')
  KEY (user_id)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '10s');
