-- For the Postgres server with wal_level = logical: the tables of a shop, a role that reads them, and a publication.
CREATE TABLE users (id integer PRIMARY KEY, name text NOT NULL, country text);
CREATE TABLE orders (
  id bigint PRIMARY KEY,
  user_id integer NOT NULL REFERENCES users,
  amount numeric(10, 2) NOT NULL,
  placed_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO users VALUES (1, 'Ada', 'GB'), (2, 'Bengt', 'SE'), (3, 'Chen', 'CN');
INSERT INTO orders VALUES (1, 1, 10.50, now()), (2, 1, 4.50, now()), (3, 2, 20.00, now());

CREATE ROLE sinkql LOGIN REPLICATION PASSWORD 'change me';
GRANT SELECT ON users, orders TO sinkql;
CREATE PUBLICATION mz_source FOR TABLE users, orders;
