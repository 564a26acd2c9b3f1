-- Write the auctions and bids of a generated auction house, and the sums of the bids, to Iceberg tables.
-- Run it in this folder: sinkql exec pipeline.sql

CREATE CONNECTION lake TO ICEBERG CATALOG (
  CATALOG TYPE = 'sql',
  WAREHOUSE = 'lake'
);

-- An auction or a bid every 10 ms, 3,000 in total; without UP TO the source never ends.
CREATE SOURCE auction_house
  FROM LOAD GENERATOR AUCTION (TICK INTERVAL = '10ms', UP TO = 3000)
  FOR ALL TABLES;

CREATE MATERIALIZED VIEW auction_bids AS
SELECT
  auction_id,
  COUNT(*) AS bid_count,
  MAX(amount) AS highest_bid,
  AVG(amount) AS average_bid,
  MAX(bid_time) AS last_bid
FROM bids
GROUP BY auction_id;

CREATE MATERIALIZED VIEW buyers AS
SELECT
  buyer,
  COUNT(DISTINCT auction_id) AS auction_count,
  SUM(amount) AS offered
FROM bids
GROUP BY buyer;

CREATE SINK auctions_sink
  FROM auctions
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'house', TABLE = 'auctions')
  ENVELOPE NONE
  WITH (COMMIT INTERVAL = '2s');

CREATE SINK auction_bids_sink
  FROM auction_bids
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'house', TABLE = 'auction_bids')
  KEY (auction_id)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '2s');

CREATE SINK buyers_sink
  FROM buyers
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'house', TABLE = 'buyers')
  KEY (buyer)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '2s');
