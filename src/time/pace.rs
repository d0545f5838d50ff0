//! When the next tick is due: an absolute grid that never drifts.

use crate::word::Nanos;

/// Ticks a second, as a fraction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Ticks in `den` seconds, not 0.
    pub num: u32,
    /// Seconds, not 0.
    pub den: u32,
}

/// The grid `d(j) = t0 + floor(j * 1e9 * den / num)` and the point it is at.
pub struct Pace {
    rate: Rate,
    start: Nanos,
    point: u64,
}

/// What follows a tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Next {
    /// When the next tick is due.
    pub at: Nanos,
    /// It is overdue: begin at once.
    pub late: bool,
    /// Grid points that are skipped for that.
    pub missed: u64,
}

impl Pace {
    /// A grid whose point 0 is `start`, where the first tick is.
    pub fn new(rate: Rate, start: Nanos) -> Pace {
        Pace { rate, start, point: 0 }
    }

    /// Time of grid point `point`.
    pub fn time(&self, point: u64) -> Nanos {
        let elapsed = u128::from(point) * 1_000_000_000 * u128::from(self.rate.den) / u128::from(self.rate.num);
        self.start.saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// The grid point that the tick in progress is of.
    pub fn point(&self) -> u64 {
        self.point
    }

    /// The last grid point that is not after `now`.
    fn last_before(&self, now: Nanos) -> u64 {
        let scaled = u128::from(now.saturating_sub(self.start)) * u128::from(self.rate.num);
        let unit = 1_000_000_000 * u128::from(self.rate.den);
        // `time` rounds down, so the point above may lie at `now` too.
        let point = (scaled / unit) as u64;
        if self.time(point + 1) <= now { point + 1 } else { point }
    }

    /// The tick of the current point has ended at `now`: the next one is of the next point, or, if that has passed, at
    /// once of the last point that has; those between are missed.
    pub fn skip(&mut self, now: Nanos) -> Next {
        let next = (self.point + 1).max(self.last_before(now));
        let missed = next - self.point - 1;
        self.point = next;
        let at = self.time(next);
        Next { at, late: at <= now, missed }
    }

    /// Nothing was due until `now`: the next tick is of the first point that is not before it. None is missed.
    pub fn resume(&mut self, now: Nanos) -> Nanos {
        let last = self.last_before(now);
        let next = if self.time(last) < now { last + 1 } else { last };
        self.point = next.max(self.point + 1);
        self.time(self.point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIXTY: Rate = Rate { num: 60, den: 1 };
    const NTSC: Rate = Rate { num: 30_000, den: 1001 };

    #[test]
    fn points_are_rounded_down_from_the_true_grid_for_ever() {
        let pace = Pace::new(NTSC, 5);
        assert_eq!(pace.time(30_000 * 3600), 5 + 1001 * 3600 * 1_000_000_000);
        assert_eq!(Pace::new(SIXTY, 0).time(1), 16_666_666);
    }

    #[test]
    fn a_hiccup_of_200_ms_at_30_hz_misses_5_and_is_late_once() {
        let mut pace = Pace::new(Rate { num: 30, den: 1 }, 0);
        assert_eq!(pace.skip(200_000_000), Next { at: 200_000_000, late: true, missed: 5 });
        assert_eq!(pace.skip(205_000_000), Next { at: 233_333_333, late: false, missed: 0 });
    }

    #[test]
    fn a_step_of_17_ms_at_60_hz_runs_at_58_8_hz() {
        let (mut pace, mut now, mut ticks, mut missed) = (Pace::new(SIXTY, 0), 0u64, 0u64, 0);
        while now < 60_000_000_000 {
            now += 17_000_000;
            ticks += 1;
            let next = pace.skip(now);
            missed += next.missed;
            now = now.max(next.at);
        }
        assert_eq!(ticks, 60_000 / 17 + 1);
        assert_eq!(ticks + missed, pace.point());
    }

    #[test]
    fn time_spent_parked_is_not_missed() {
        let mut pace = Pace::new(SIXTY, 0);
        pace.skip(0);
        assert_eq!(pace.resume(1_000_000_001), pace.time(61));
        assert_eq!(pace.skip(pace.time(61)).missed, 0);
    }

    #[test]
    fn the_last_point_is_found_exactly_at_any_distance() {
        for rate in [SIXTY, NTSC, Rate { num: 7, den: 3 }] {
            let pace = Pace::new(rate, 99);
            for point in [0, 1, 2, 59, 60, 1_000_003, 4_000_000_007] {
                let at = pace.time(point);
                assert_eq!(pace.last_before(at), point);
                assert_eq!(pace.last_before(at + 1), point);
                if point > 0 {
                    assert_eq!(pace.last_before(at - 1), point - 1);
                }
            }
        }
    }
}
