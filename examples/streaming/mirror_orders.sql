-- Orders that are made, changed and deleted → an Iceberg table with the orders as they are.
-- Run it in this folder: sinkql exec mirror_orders.sql

CREATE CONNECTION lake
  TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');

-- 1,500 orders, of which one is replaced each 10 ms, 3,000 times; without UP TO it never ends.
CREATE SOURCE shop
  FROM LOAD GENERATOR TPCH (SCALE FACTOR = 0.001, TICK INTERVAL = '10ms', UP TO = 3000)
  FOR TABLES (orders);

CREATE SINK orders_sink
  FROM orders
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'db', TABLE = 'orders')
  KEY (o_orderkey)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1min');
