-- q0
SELECT auction, bidder, price, date_time, extra
FROM bid;

-- q1
SELECT auction, bidder, 0.908 * price AS price, date_time, extra
FROM bid;

-- q2
SELECT auction, price
FROM bid
WHERE auction % 7 = 0;

-- q3
SELECT p.name, p.city, p.state, a.id
FROM auction a JOIN person p ON a.seller = p.id
WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA');

-- q4
SELECT q.category, avg(q.final) AS avg
FROM (
  SELECT max(b.price) AS final, a.category
  FROM auction a, bid b
  WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
  GROUP BY a.id, a.category
) q
GROUP BY q.category;

-- q5
WITH bids AS (
  SELECT b.auction, date_bin('2 seconds', b.date_time, '2000-01-01') - back AS starttime,
    count(*) AS num
  FROM bid b CROSS JOIN (
    VALUES (interval '0 seconds'), (interval '2 seconds'), (interval '4 seconds'), (interval '6 seconds'),
      (interval '8 seconds')) AS hop (back)
  GROUP BY 1, 2
)
SELECT bids.auction, bids.num, bids.starttime
FROM bids JOIN (SELECT max(num) AS maxn, starttime FROM bids GROUP BY starttime) most
  ON bids.starttime = most.starttime AND bids.num >= most.maxn;

-- q6
SELECT seller, id, avg(final) OVER (
  PARTITION BY seller ORDER BY date_time, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS avg
FROM (
  SELECT DISTINCT ON (a.id) a.id, a.seller, b.price AS final, b.date_time
  FROM auction a, bid b
  WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
  ORDER BY a.id, b.price DESC, b.date_time
) q;

-- q7
SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM bid b JOIN (
  SELECT max(price) AS maxprice, date_bin('10 seconds', date_time, '2000-01-01') AS starttime
  FROM bid
  GROUP BY 2
) b1 ON b.price = b1.maxprice
WHERE b.date_time >= b1.starttime AND b.date_time < b1.starttime + interval '10 seconds';

-- q8
SELECT p.id, p.name, p.starttime
FROM (
  SELECT id, name, date_bin('10 seconds', date_time, '2000-01-01') AS starttime
  FROM person
  GROUP BY id, name, 3
) p JOIN (
  SELECT seller, date_bin('10 seconds', date_time, '2000-01-01') AS starttime
  FROM auction
  GROUP BY 1, 2
) a ON p.id = a.seller AND p.starttime = a.starttime;

-- q9
SELECT id, item_name, initial_bid, reserve, date_time, expires, seller, category, bid_bidder, bid_price, bid_date_time
FROM (
  SELECT a.*, b.bidder AS bid_bidder, b.price AS bid_price, b.date_time AS bid_date_time,
    row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) AS rownum
  FROM auction a, bid b
  WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
) ranked
WHERE rownum <= 1;

-- q10
SELECT auction, bidder, price, date_time, extra, date_time::date AS day,
  lpad(extract(hour FROM date_time)::int::text, 2, '0') || ':' || lpad(extract(minute FROM date_time)::int::text, 2, '0') AS minute
FROM bid;

-- q11
WITH marked AS (
  SELECT bidder, date_time, CASE WHEN date_time <= lag(date_time) OVER (PARTITION BY bidder ORDER BY date_time)
    + interval '10 seconds' THEN 0 ELSE 1 END AS starts
  FROM bid
), numbered AS (
  SELECT bidder, date_time, sum(starts) OVER (PARTITION BY bidder ORDER BY date_time) AS session
  FROM marked
)
SELECT bidder, count(*) AS bid_count, min(date_time) AS starttime, max(date_time) + interval '10 seconds' AS endtime
FROM numbered
GROUP BY bidder, session;

-- q12
SELECT bidder, count(*) AS bid_count, date_bin('10 seconds', now(), '2000-01-01') AS starttime
FROM bid
GROUP BY 1, 3;

-- q13
SELECT b.auction, b.bidder, b.price, b.date_time, s.value
FROM bid b JOIN side_input s ON b.auction % 10 = s.key;

-- q14
SELECT auction, bidder, 0.908 * price AS price,
  CASE WHEN extract(hour FROM date_time) >= 8 AND extract(hour FROM date_time) <= 18 THEN 'dayTime'
    WHEN extract(hour FROM date_time) <= 6 OR extract(hour FROM date_time) >= 20 THEN 'nightTime'
    ELSE 'otherTime' END AS bid_time_type,
  date_time, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * price > 10000 AND 0.908 * price < 50000000;

-- q15
SELECT date_time::date AS day, count(*) AS total_bids, count(*) FILTER (WHERE price < 10000) AS rank1_bids,
  count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  count(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
  count(DISTINCT bidder) AS total_bidders,
  count(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
  count(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bidders,
  count(DISTINCT auction) AS total_auctions,
  count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions
FROM bid
GROUP BY date_time::date;

-- q16
SELECT channel, date_time::date AS day, max(date_time::time) AS minute, count(*) AS total_bids,
  count(*) FILTER (WHERE price < 10000) AS rank1_bids, count(DISTINCT bidder) AS total_bidders,
  count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidders,
  count(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auctions
FROM bid
GROUP BY channel, date_time::date;

-- q17
SELECT auction, date_time::date AS day, count(*) AS total_bids,
  count(*) FILTER (WHERE price < 10000) AS rank1_bids,
  count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  count(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
  min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
FROM bid
GROUP BY auction, date_time::date;

-- q18
SELECT auction, bidder, price, channel, url, date_time, extra
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY bidder, auction ORDER BY date_time DESC, price, channel, url, extra) AS rank_number
  FROM bid
) ranked
WHERE rank_number <= 1;

-- q19
SELECT *
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY auction ORDER BY price DESC, bidder, channel, url, date_time, extra) AS rank_number
  FROM bid
) ranked
WHERE rank_number <= 4;

-- q20
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time AS bid_date_time, b.extra, a.item_name, a.initial_bid,
  a.reserve, a.date_time AS auction_date_time, a.expires, a.seller, a.category
FROM bid b JOIN auction a ON b.auction = a.id
WHERE a.category = 10;

-- q21
SELECT auction, bidder, price, channel,
  CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
    WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
    ELSE split_part(url, '&channel_id=', 2) END AS channel_id
FROM bid
WHERE url LIKE '%&channel_id=%' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu');

-- q22
SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
  split_part(url, '/', 6) AS dir3
FROM bid;

-- q23
SELECT b.auction, b.bidder, b.price, b.date_time, a.id AS sold, p.name, p.email_address, p.city, a.item_name, a.category
FROM bid b JOIN person p ON b.bidder = p.id JOIN auction a ON a.seller = b.bidder;
