-- Assume you have a source named user_events
CREATE MATERIALIZED VIEW user_activity_summary AS
SELECT
    user_id,
    DATE_TRUNC('hour', event_timestamp) as hour,
    COUNT(*) as event_count,
    COUNT(DISTINCT session_id) as session_count,
    MAX(event_timestamp) as last_event_time
FROM user_events
GROUP BY user_id, DATE_TRUNC('hour', event_timestamp);
