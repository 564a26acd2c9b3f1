-- Install and load the Iceberg extension
INSTALL iceberg;
LOAD iceberg;

-- Query the table
SELECT
    user_id,
    hour,
    event_count,
    session_count
FROM iceberg_scan('s3://your-bucket/warehouse/analytics/user_activity')
WHERE hour >= CURRENT_DATE - INTERVAL 7 days
ORDER BY hour DESC, event_count DESC
LIMIT 100;
