-- Maintain an Iceberg table with the current orders, while orders are added, changed and deleted.
-- Run it in this folder: sinkql exec mirror_orders.sql

CREATE CONNECTION lake
  TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');

-- 1,500 orders. Every 10 ms one of them is replaced, 3,000 times in total; without UP TO the source never ends.
CREATE SOURCE shop
  FROM LOAD GENERATOR TPCH (SCALE FACTOR = 0.001, TICK INTERVAL = '10ms', UP TO = 3000)
  FOR TABLES (orders);

CREATE SINK orders_sink
  FROM orders
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'db', TABLE = 'orders')
  KEY (o_orderkey)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1min');
