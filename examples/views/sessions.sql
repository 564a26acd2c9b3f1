-- Group page views into sessions: visits of one user with at most 30 minutes between two pages.
-- Run it in this folder: sinkql exec sessions.sql --once

CREATE CONNECTION IF NOT EXISTS lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');

CREATE TABLE page_views (
  user_id bigint NOT NULL,
  viewed_at timestamp NOT NULL,
  page text NOT NULL
);

INSERT INTO page_views VALUES
  (1, '2026-03-01 09:00:00', '/'), (1, '2026-03-01 09:10:00', '/tea'), (1, '2026-03-01 11:00:00', '/rice'),
  (2, '2026-03-01 09:05:00', '/');

CREATE VIEW marked_views AS
SELECT
  user_id,
  viewed_at,
  CASE
    WHEN viewed_at <= LAG(viewed_at) OVER (PARTITION BY user_id ORDER BY viewed_at) + INTERVAL '30 minutes' THEN 0
    ELSE 1
  END AS begins
FROM page_views;

CREATE VIEW numbered_views AS
SELECT
  user_id,
  viewed_at,
  SUM(begins) OVER (PARTITION BY user_id ORDER BY viewed_at) AS session
FROM marked_views;

CREATE MATERIALIZED VIEW sessions AS
SELECT
  user_id,
  session,
  MIN(viewed_at) AS started_at,
  MAX(viewed_at) AS ended_at,
  COUNT(*) AS pages
FROM numbered_views
GROUP BY user_id, session;

CREATE SINK sessions_sink
  FROM sessions
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'views', TABLE = 'sessions')
  KEY (user_id, session)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '2s');
