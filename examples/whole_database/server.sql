-- For the Postgres server with wal_level = logical: a database with some tables, and a publication of all of them.
CREATE TYPE status AS ENUM ('new', 'paid', 'sent');
CREATE TABLE customers (id integer PRIMARY KEY, name text NOT NULL, tags text[], details jsonb);
CREATE TABLE products (code text PRIMARY KEY, price numeric(8, 2) NOT NULL);
CREATE TABLE purchases (
  customer_id integer REFERENCES customers,
  product text REFERENCES products,
  state status NOT NULL,
  bought_on date NOT NULL,
  PRIMARY KEY (customer_id, product)
);
INSERT INTO customers VALUES (1, 'Ada', '{early,often}', '{"vip": true}'), (2, 'Bengt', NULL, NULL);
INSERT INTO products VALUES ('pen', 1.20), ('ink', 7.95);
INSERT INTO purchases VALUES (1, 'pen', 'sent', '2026-03-01'), (2, 'ink', 'new', '2026-03-02');

CREATE ROLE reader LOGIN REPLICATION PASSWORD 'change me';
GRANT pg_read_all_data TO reader;
CREATE PUBLICATION everything FOR ALL TABLES WITH (publish_via_partition_root = true);
