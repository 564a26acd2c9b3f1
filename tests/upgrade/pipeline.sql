CREATE SECRET aws_key AS 'aws-key-81f2';

CREATE CONNECTION aws
  TO AWS (
    ACCESS KEY ID = 'AKIATESTKEY',
    SECRET ACCESS KEY = SECRET aws_key,
    ENDPOINT = 'http://127.0.0.1:1',
    REGION = 'eu-west-1'
  );

CREATE CONNECTION lake
  TO ICEBERG CATALOG (CATALOG TYPE = 'glue', WAREHOUSE = 's3://lake/warehouse', AWS CONNECTION = aws)
  WITH (VALIDATE = FALSE);

CREATE CLUSTER stored (SIZE = 'local[2]', STATE = 's3://lake/state', AWS CONNECTION = aws);

CREATE SOURCE orders (id bigint NOT NULL, customer bigint, amount numeric(10,2), ordered_at timestamp)
  FROM FILES (PATH = 'orders', GLOB = '*.csv')
  FORMAT CSV WITH HEADER
  WITH (ON ERROR = 'DEAD LETTER');

CREATE SOURCE events (id bigint NOT NULL, k bigint NOT NULL, v text, opens timestamptz, closes timestamptz)
  FROM FILES (PATH = 'events', GLOB = '*.json')
  FORMAT JSON;

CREATE SOURCE lines (id bigint NOT NULL, customer bigint, product text, quantity integer, price numeric(10,2))
  FROM FILES (PATH = 'lines', GLOB = '*.parquet')
  FORMAT PARQUET;

CREATE SOURCE objects (id bigint NOT NULL, v text)
  FROM FILES CONNECTION aws (PATH = 's3://lake/objects', GLOB = '*.json')
  FORMAT JSON;

CREATE SOURCE numbers FROM LOAD GENERATOR COUNTER (TICK INTERVAL = '1s', UP TO = 20);

CREATE SOURCE pairs
  FROM LOAD GENERATOR KEY VALUE (
    KEYS = 16,
    SNAPSHOT ROUNDS = 3,
    VALUE SIZE = 10,
    SEED = 1,
    PARTITIONS = 4,
    BATCH SIZE = 2,
    TICK INTERVAL = '1s',
    UP TO = 10
  )
  INCLUDE KEY
  ENVELOPE UPSERT;

CREATE SOURCE hooks
  FROM WEBHOOK
  BODY FORMAT JSON
  INCLUDE HEADER 'Idempotency-Key' AS key
  WITH (PORT = 1);

CREATE TABLE customers (id bigint PRIMARY KEY, name text, region text);

CREATE MATERIALIZED VIEW sales AS
SELECT
  customer,
  count(*) AS n,
  count(DISTINCT product) AS products,
  sum(quantity * price) AS total,
  min(price) AS least,
  max(price) AS most,
  array_agg(id ORDER BY id) AS ids
FROM lines
GROUP BY customer;

CREATE MATERIALIZED VIEW eastern
  WITH (COMMIT INTERVAL = '1s') AS
SELECT id, name
FROM customers
WHERE region <> 'west';

CREATE INDEX eastern_by_id ON eastern (id);

CREATE MATERIALIZED VIEW named AS
SELECT l.id, l.product, e.name
FROM lines AS l
JOIN eastern AS e ON e.id = l.customer;

CREATE MATERIALIZED VIEW completed AS
SELECT l.id, l.quantity, c.region
FROM lines AS l
LEFT JOIN customers AS c ON c.id = l.customer;

CREATE MATERIALIZED VIEW ranked AS
SELECT customer, id, price, place
FROM (
  SELECT customer, id, price, row_number() OVER (PARTITION BY customer ORDER BY price DESC, id) AS place
  FROM lines
)
WHERE place <= 2;

CREATE MATERIALIZED VIEW summed AS
SELECT id, product, sum(quantity) OVER (PARTITION BY product ORDER BY id) AS so_far
FROM lines;

CREATE MATERIALIZED VIEW open AS
SELECT id, v
FROM events
WHERE mz_now() >= opens AND mz_now() < closes;

CREATE MATERIALIZED VIEW silent AS
SELECT id FROM customers
EXCEPT
SELECT customer FROM lines;

CREATE MATERIALIZED VIEW dear AS
SELECT id, price
FROM lines
WHERE price > (SELECT avg(price) FROM lines);

CREATE MATERIALIZED VIEW regions AS
SELECT region, count(*) AS n, max(name) AS last
FROM customers
GROUP BY region;

CREATE MATERIALIZED VIEW large AS
SELECT region, n
FROM regions
WHERE n > 3;

CREATE MATERIALIZED VIEW keys AS
SELECT partition, count(*) AS n, min(key) AS least, max(key) AS most
FROM pairs
GROUP BY partition;

CREATE SINK orders_sink
  FROM orders
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'orders')
  MODE APPEND
  PARTITION BY (month(ordered_at))
  WITH (COMMIT INTERVAL = '1s');

CREATE SINK latest_sink
  FROM events
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'latest')
  KEY (k) NOT ENFORCED
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');

CREATE SINK vectors_sink
  FROM events
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'vectors')
  KEY (k) NOT ENFORCED
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s', FORMAT VERSION = 3);

CREATE SINK sales_sink
  FROM sales
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'sales')
  KEY (customer)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');

CREATE SINK named_sink
  FROM named
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'named')
  KEY (id) NOT ENFORCED
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');

CREATE SINK completed_sink
  IN CLUSTER stored
  FROM completed
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'completed')
  KEY (id) NOT ENFORCED
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');

CREATE SINK ranked_sink
  FROM ranked
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'ranked')
  KEY (customer, place)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');

CREATE SINK summed_sink
  FROM summed
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'summed')
  KEY (id) NOT ENFORCED
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');

CREATE SINK open_sink
  FROM open
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'open')
  KEY (id) NOT ENFORCED
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');

CREATE SINK silent_sink
  FROM silent
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'silent')
  KEY (id)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');

CREATE SINK dear_sink
  FROM dear
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'dear')
  KEY (id) NOT ENFORCED
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');

CREATE SINK regions_sink
  FROM regions
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'regions')
  KEY (region)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');

CREATE SINK large_sink
  FROM large
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'large')
  KEY (region)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');

CREATE SINK keys_sink
  FROM keys
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'keys')
  KEY (partition)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');

CREATE SINK numbers_sink
  FROM numbers
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'numbers')
  MODE APPEND
  WITH (COMMIT INTERVAL = '1s');

CREATE SINK objects_sink
  FROM objects
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'objects')
  MODE APPEND
  WITH (COMMIT INTERVAL = '1s');

CREATE SINK hooks_sink
  FROM hooks
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'hooks')
  KEY (key) NOT ENFORCED
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
