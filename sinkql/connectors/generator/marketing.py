"""MARKETING: each tick an impression and a lead with its prediction; clicks and conversions come ticks later.

All of it is known from the number of the tick that it belongs to: what comes later looks back at the ticks before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sinkql.connectors.generator.columns import Ints, between, choice, fraction, noise, times
from sinkql.connectors.generator.table import Made, Pace, Table, Window, batch

_CUSTOMERS = 50
_CAMPAIGNS = 20
_CLICK_MS = (20_000, 39_999)
_CONVERSION_MS = (1, 29)
_MOST_TICKS_LATER = 1 << 16
_BUCKETS = ("control", "experiment")


def table(options: Mapping[str, Any]) -> Table:
    """Return one of the tables by its name."""
    campaign = _Campaign(options["seed"], Pace.of(options["pace"]))
    match options["table"]:
        case "customers":
            return Made(campaign.customers, _CUSTOMERS, 0)
        case "impressions":
            return Made(campaign.impressions)
        case "clicks":
            return Made(campaign.clicks)
        case "leads":
            return Made(campaign.leads, weight=3, retracts=True)
        case "coupons":
            return Made(campaign.coupons)
        case "conversion_predictions":
            return Made(campaign.predictions)
        case other:
            raise LookupError(other)


@dataclass(frozen=True, slots=True)
class _Campaign:
    """Ids are of one series: impression, lead and coupon of tick i have 3i, 3i + 1 and 3i + 2."""

    seed: int
    pace: Pace

    def customers(self, window: Window) -> pa.RecordBatch:
        ids = window.places
        emails = [f"customer{each:02}@example.com" for each in ids.tolist()]
        income = between(5_000_000, 9_999_999, noise(self.seed, "income", ids))
        return batch({"id": ids, "email": pa.array(emails, pa.string()), "income": income})

    def impressions(self, window: Window) -> pa.RecordBatch:
        ticks = window.places
        return batch(
            {
                "id": ticks * 3,
                "customer_id": between(0, _CUSTOMERS - 1, noise(self.seed, "impression customer", ticks)),
                "campaign_id": between(0, _CAMPAIGNS - 1, noise(self.seed, "campaign", ticks)),
                "impression_time": times(self.pace.times(window.since_ms, ticks)),
            }
        )

    def clicks(self, window: Window) -> pa.RecordBatch:
        ticks = self._looking_back(window, _CLICK_MS[1])
        clicked = between(0, 9, noise(self.seed, "clicked", ticks)) == 1
        delay = between(*_CLICK_MS, noise(self.seed, "click", ticks)) * 1000
        comes = self._comes(ticks, delay)
        here = clicked & (comes >= window.at) & (comes < window.to)
        clicked_at = self.pace.times(window.since_ms, ticks[here]) + delay[here]
        return batch({"impression_id": ticks[here] * 3, "click_time": times(clicked_at)})

    def leads(self, window: Window) -> pa.RecordBatch:
        ticks = self._looking_back(window, _CONVERSION_MS[1])
        converted = self._converted(ticks)
        delay = between(*_CONVERSION_MS, noise(self.seed, "conversion", ticks)) * 1000
        comes = np.where(converted, self._comes(ticks, delay), np.iinfo(np.int64).max)
        new = (ticks >= window.at) & (ticks < window.to)
        late = (comes >= window.at) & (comes < window.to) & (ticks < window.start)
        shown = np.concatenate([ticks[new], ticks[late], ticks[late]])
        done = np.concatenate([comes[new] < window.end, np.ones(late.sum(), bool), np.zeros(late.sum(), bool)])
        diff = np.concatenate([np.ones(new.sum() + late.sum(), np.int64), np.full(late.sum(), -1, np.int64)])
        after = np.concatenate([delay[new], delay[late], delay[late]])
        created = self.pace.times(window.since_ms, shown)
        amount = between(1000, 24_999, noise(self.seed, "amount", shown))
        return batch(
            {
                "id": shown * 3 + 1,
                "customer_id": between(0, _CUSTOMERS - 1, noise(self.seed, "lead customer", shown)),
                "created_at": times(created),
                "converted_at": pa.array(created + after, pa.timestamp("us", "UTC"), mask=~done),
                "conversion_amount": pa.array(amount, mask=~done),
            },
            diff,
        )

    def coupons(self, window: Window) -> pa.RecordBatch:
        ticks = window.places
        ticks = ticks[self._couponed(ticks)]
        return batch(
            {
                "id": ticks * 3 + 2,
                "lead_id": ticks * 3 + 1,
                "created_at": times(self.pace.times(window.since_ms, ticks)),
                "amount": between(500, 4999, noise(self.seed, "coupon", ticks)),
            }
        )

    def predictions(self, window: Window) -> pa.RecordBatch:
        ticks = window.places
        return batch(
            {
                "lead_id": ticks * 3 + 1,
                "experiment_bucket": choice(_BUCKETS, self._experiment(ticks).astype(np.int64)),
                "predicted_at": times(self.pace.times(window.since_ms, ticks)),
                "score": self._score(ticks),
            }
        )

    def _score(self, ticks: Ints) -> np.ndarray[Any, np.dtype[np.float64]]:
        return fraction(noise(self.seed, "score", ticks))

    def _experiment(self, ticks: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return (ticks * 3 + 1) % 10 > 1

    def _couponed(self, ticks: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Tell who gets a coupon: leads of the experiment that are not likely to convert."""
        return self._experiment(ticks) & (self._score(ticks) <= 0.5)

    def _converted(self, ticks: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Tell which leads convert: as likely as predicted, with a second chance for those with a coupon."""
        score = self._score(ticks)
        first, second = (fraction(noise(self.seed, f"chance {each}", ticks)) < score for each in (1, 2))
        return first | (self._couponed(ticks) & second)

    def _comes(self, ticks: Ints, delay: Ints) -> Ints:
        """Return the tick at which something is there that happens so many microseconds after a tick."""
        later = -(-delay * self.pace.ticks // self.pace.micros)
        return ticks + np.clip(later, 1, _MOST_TICKS_LATER)

    def _looking_back(self, window: Window, most_ms: int) -> Ints:
        """Return the ticks of which something may come in a part."""
        later = -(-most_ms * 1000 * self.pace.ticks // self.pace.micros)
        return np.arange(max(0, window.at - min(max(later, 1), _MOST_TICKS_LATER)), window.to, dtype=np.int64)
