"""What the page of options says of the load generators."""

from __future__ import annotations

AUCTION = """An auction house of 100 organizations and 4,096 users. Each tick there is a new auction, or a bid in
the last one; an auction has 2 to 9 bids. Tables, whose rows only come: `auction.organizations (id, name)`,
`auction.users (id, org_id, name)`, `auction.accounts (id, org_id, balance)`,
`auction.auctions (id, seller, item, end_time)`, `auction.bids (id, buyer, auction_id, amount, bid_time)`."""
CLOCK = "One row, whose column `time` is the time of the last tick."
KEY_VALUE = """Random bytes for each key. Columns: `key` with `INCLUDE KEY`, `partition`, `value`, and `offset`
with `INCLUDE OFFSET`. With `ENVELOPE UPSERT` there is a row for each key, which new values overwrite; otherwise one for
each value. The first rounds of values are there from the beginning. Each tick, each partition gets a batch of new
values."""
MARKETING = """A campaign with 50 customers. Each tick there is an impression, and a lead with a prediction;
clicks come some 30 seconds after an impression, and a lead that converts changes. Tables:
`marketing.customers (id, email, income)`,
`marketing.impressions (id, customer_id, campaign_id, impression_time)`,
`marketing.clicks (impression_id, click_time)`,
`marketing.leads (id, customer_id, created_at, converted_at, conversion_amount)`,
`marketing.coupons (id, lead_id, created_at, amount)`,
`marketing.conversion_predictions (lead_id, experiment_bucket, predicted_at, score)`."""
TPCH = """The tables of TPC-H with its keys, prices, dates and numbers of rows; texts are others:
`tpch.supplier`, `tpch.part`, `tpch.partsupp`, `tpch.customer`, `tpch.orders`, `tpch.lineitem`, `tpch.nation`,
`tpch.region`. With `TICK INTERVAL`, `ROWS PER SECOND` or `UP TO`, each tick replaces an order and its items by
others."""
