-- What the guide assumes: a cluster, and sources of events and orders, here JSON files.
CREATE CLUSTER sink_cluster (SIZE = 'local[2]');

CREATE SOURCE user_events (
    user_id bigint NOT NULL,
    session_id text,
    event_timestamp timestamptz NOT NULL
) FROM FILES (PATH = 'events') FORMAT JSON;

CREATE SOURCE orders (
    product_id bigint NOT NULL,
    order_timestamp timestamptz NOT NULL,
    quantity integer,
    revenue numeric(12, 2)
) FROM FILES (PATH = 'orders') FORMAT JSON;
