SELECT
    user_id,
    hour,
    event_count
FROM iceberg.analytics.user_activity
WHERE hour >= CURRENT_DATE - INTERVAL '7' DAY
ORDER BY hour DESC
LIMIT 100;
