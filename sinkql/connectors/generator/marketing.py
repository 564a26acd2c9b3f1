"""MARKETING: each tick adds an impression and a lead with its prediction; clicks and conversions follow later.

Each row is computed from the number of its tick; for later events, the generator searches the preceding ticks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sinkql.connectors.generator.columns import Ints, between, choice, fraction, noise, times
from sinkql.connectors.generator.table import GeneratedTable, Pace, PlannedTicks, Table, Window, batch

_CUSTOMERS = 50
_CAMPAIGNS = 20
_CLICK_MS = (20_000, 39_999)
_CONVERSION_MS = (1, 29)
_MOST_TICKS_LATER = 1 << 16
_BUCKETS = ("control", "experiment")


def table(planned: PlannedTicks) -> Table:
    """Return the planned table."""
    campaign = _Campaign(planned.seed, planned.pace)
    match planned.table:
        case "customers":
            return GeneratedTable(campaign.customers, _CUSTOMERS, 0)
        case "impressions":
            return GeneratedTable(campaign.impressions)
        case "clicks":
            return GeneratedTable(campaign.clicks)
        case "leads":
            return GeneratedTable(campaign.leads, weight=3, retracts=True)
        case "coupons":
            return GeneratedTable(campaign.coupons)
        case "conversion_predictions":
            return GeneratedTable(campaign.predictions)
        case other:
            raise LookupError(other)


@dataclass(frozen=True, slots=True)
class _Campaign:
    """The generator of all tables. The impression, lead and coupon of tick i have the ids 3i, 3i + 1 and 3i + 2."""

    seed: int
    pace: Pace

    def customers(self, window: Window) -> pa.RecordBatch:
        ids = window.positions
        emails = [f"customer{id_:02}@example.com" for id_ in ids.tolist()]
        income = between(5_000_000, 9_999_999, noise(self.seed, "income", ids))
        return batch({"id": ids, "email": pa.array(emails, pa.string()), "income": income})

    def impressions(self, window: Window) -> pa.RecordBatch:
        ticks = window.positions
        return batch(
            {
                "id": ticks * 3,
                "customer_id": between(0, _CUSTOMERS - 1, noise(self.seed, "impression customer", ticks)),
                "campaign_id": between(0, _CAMPAIGNS - 1, noise(self.seed, "campaign", ticks)),
                "impression_time": times(self.pace.times(window.since_ms, ticks)),
            }
        )

    def clicks(self, window: Window) -> pa.RecordBatch:
        ticks = self._recent_ticks(window, _CLICK_MS[1])
        clicked = between(0, 9, noise(self.seed, "clicked", ticks)) == 1
        delay = between(*_CLICK_MS, noise(self.seed, "click", ticks)) * 1000
        click_ticks = self._tick_after(ticks, delay)
        in_window = clicked & (click_ticks >= window.at) & (click_ticks < window.to)
        clicked_at = self.pace.times(window.since_ms, ticks[in_window]) + delay[in_window]
        return batch({"impression_id": ticks[in_window] * 3, "click_time": times(clicked_at)})

    def leads(self, window: Window) -> pa.RecordBatch:
        ticks = self._recent_ticks(window, _CONVERSION_MS[1])
        converted = self._converts(ticks)
        delay = between(*_CONVERSION_MS, noise(self.seed, "conversion", ticks)) * 1000
        conversion_ticks = np.where(converted, self._tick_after(ticks, delay), np.iinfo(np.int64).max)
        new = (ticks >= window.at) & (ticks < window.to)
        late = (conversion_ticks >= window.at) & (conversion_ticks < window.to) & (ticks < window.start)
        shown_ticks = np.concatenate([ticks[new], ticks[late], ticks[late]])
        is_converted = np.concatenate(
            [conversion_ticks[new] < window.end, np.ones(late.sum(), bool), np.zeros(late.sum(), bool)]
        )
        diff = np.concatenate([np.ones(new.sum() + late.sum(), np.int64), np.full(late.sum(), -1, np.int64)])
        delays = np.concatenate([delay[new], delay[late], delay[late]])
        created = self.pace.times(window.since_ms, shown_ticks)
        amount = between(1000, 24_999, noise(self.seed, "amount", shown_ticks))
        return batch(
            {
                "id": shown_ticks * 3 + 1,
                "customer_id": between(0, _CUSTOMERS - 1, noise(self.seed, "lead customer", shown_ticks)),
                "created_at": times(created),
                "converted_at": pa.array(created + delays, pa.timestamp("us", "UTC"), mask=~is_converted),
                "conversion_amount": pa.array(amount, mask=~is_converted),
            },
            diff,
        )

    def coupons(self, window: Window) -> pa.RecordBatch:
        ticks = window.positions
        ticks = ticks[self._has_coupon(ticks)]
        return batch(
            {
                "id": ticks * 3 + 2,
                "lead_id": ticks * 3 + 1,
                "created_at": times(self.pace.times(window.since_ms, ticks)),
                "amount": between(500, 4999, noise(self.seed, "coupon", ticks)),
            }
        )

    def predictions(self, window: Window) -> pa.RecordBatch:
        ticks = window.positions
        return batch(
            {
                "lead_id": ticks * 3 + 1,
                "experiment_bucket": choice(_BUCKETS, self._is_in_experiment(ticks).astype(np.int64)),
                "predicted_at": times(self.pace.times(window.since_ms, ticks)),
                "score": self._score(ticks),
            }
        )

    def _score(self, ticks: Ints) -> np.ndarray[Any, np.dtype[np.float64]]:
        return fraction(noise(self.seed, "score", ticks))

    def _is_in_experiment(self, ticks: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return (ticks * 3 + 1) % 10 > 1

    def _has_coupon(self, ticks: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return which leads get a coupon: leads of the experiment that are unlikely to convert."""
        return self._is_in_experiment(ticks) & (self._score(ticks) <= 0.5)

    def _converts(self, ticks: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return which leads convert: with the predicted probability, and a second chance for leads with a coupon."""
        score = self._score(ticks)
        first, second = (fraction(noise(self.seed, f"chance {number}", ticks)) < score for number in (1, 2))
        return first | (self._has_coupon(ticks) & second)

    def _tick_after(self, ticks: Ints, delay: Ints) -> Ints:
        """Return the tick at which an event exists that happens `delay` microseconds after a tick."""
        later = -(-delay * self.pace.ticks // self.pace.micros)
        return ticks + np.clip(later, 1, _MOST_TICKS_LATER)

    def _recent_ticks(self, window: Window, most_ms: int) -> Ints:
        """Return the ticks whose delayed events may be in a window."""
        later = -(-most_ms * 1000 * self.pace.ticks // self.pace.micros)
        return np.arange(max(0, window.at - min(max(later, 1), _MOST_TICKS_LATER)), window.to, dtype=np.int64)
