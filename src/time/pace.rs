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

/// What is done about a tick that ends after the next grid point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overrun {
    /// One tick at once, of the last point that has passed; those between are missed.
    Skip,
    /// A tick at once for each point that has passed, at most so many running, then as `Skip` once.
    CatchUp(u32),
}

/// The grid `d(j) = t0 + floor(j * 1e9 * den / num)` and the point it is at.
pub struct Pace {
    rate: Rate,
    overrun: Overrun,
    start: Nanos,
    point: u64,
    /// Ticks running that were begun at once to catch up.
    behind: u32,
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
    pub fn new(rate: Rate, overrun: Overrun, start: Nanos) -> Pace {
        Pace { rate, overrun, start, point: 0, behind: 0 }
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
        let above = point.saturating_add(1);
        if self.time(above) <= now { above } else { point }
    }

    /// The tick of the current point has ended at `now`: the next one is of the next point, or, if that has passed, at
    /// once of the one that [`Overrun`] names.
    pub fn next(&mut self, now: Nanos) -> Next {
        // It stays at the last there is: a host's clock may say any time.
        let following = self.point.saturating_add(1);
        let next = match self.overrun {
            Overrun::CatchUp(most) if self.time(following) <= now && self.behind < most => {
                self.behind += 1;
                following
            }
            _ => {
                self.behind = 0;
                following.max(self.last_before(now))
            }
        };
        self.point = next;
        let at = self.time(next);
        Next { at, late: at <= now, missed: next - following }
    }

    /// Nothing was due until `now`: the next tick is of the first point that is not before it. None is missed.
    pub fn resume(&mut self, now: Nanos) -> Nanos {
        let last = self.last_before(now);
        let next = if self.time(last) < now { last.saturating_add(1) } else { last };
        self.behind = 0;
        self.point = next.max(self.point.saturating_add(1));
        self.time(self.point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THIRTY: Rate = Rate { num: 30, den: 1 };
    const SIXTY: Rate = Rate { num: 60, den: 1 };
    const NTSC: Rate = Rate { num: 30_000, den: 1001 };

    #[test]
    fn points_are_rounded_down_from_the_true_grid_for_ever() {
        let pace = Pace::new(NTSC, Overrun::Skip, 5);
        assert_eq!(pace.time(30_000 * 3600), 5 + 1001 * 3600 * 1_000_000_000);
        assert_eq!(Pace::new(SIXTY, Overrun::Skip, 0).time(1), 16_666_666);
    }

    #[test]
    fn a_hiccup_of_200_ms_at_30_hz_misses_5_and_is_late_once() {
        let mut pace = Pace::new(THIRTY, Overrun::Skip, 0);
        assert_eq!(pace.next(200_000_000), Next { at: 200_000_000, late: true, missed: 5 });
        assert_eq!(pace.next(205_000_000), Next { at: 233_333_333, late: false, missed: 0 });
    }

    #[test]
    fn a_step_of_17_ms_at_60_hz_runs_at_58_8_hz() {
        let (mut pace, mut now, mut ticks, mut missed) = (Pace::new(SIXTY, Overrun::Skip, 0), 0u64, 0u64, 0);
        while now < 60_000_000_000 {
            now += 17_000_000;
            ticks += 1;
            let next = pace.next(now);
            missed += next.missed;
            now = now.max(next.at);
        }
        assert_eq!(ticks, 60_000 / 17 + 1);
        assert_eq!(ticks + missed, pace.point());
    }

    /// When the tick in progress ends, and what must follow: when the next is due, whether at once, how many are missed.
    type Turn = (Nanos, Nanos, bool, u64);

    fn expect(mut pace: Pace, turns: &[Turn]) {
        for (turn, (now, at, late, missed)) in turns.iter().copied().enumerate() {
            assert_eq!(pace.next(now), Next { at, late, missed }, "turn {turn}");
        }
    }

    #[test]
    fn catching_up_makes_each_point_that_was_missed_and_none_where_it_is_on_time() {
        // 30 Hz: points at 33.3, 66.6, 100.0, 133.3, 166.6 ms. A tick of 120 ms, then 1 ms each.
        let pace = Pace::new(THIRTY, Overrun::CatchUp(4), 0);
        expect(
            pace,
            &[
                (120_000_000, 33_333_333, true, 0),
                (121_000_000, 66_666_666, true, 0),
                (122_000_000, 100_000_000, true, 0),
                (123_000_000, 133_333_333, false, 0),
                (134_333_333, 166_666_666, false, 0),
            ],
        );
    }

    #[test]
    fn a_hiccup_of_200_ms_at_30_hz_is_caught_up_with_by_two_and_then_skipped() {
        // Points 1 and 2 at once, then point 6 of 200 ms: 3, 4 and 5 are missed.
        let pace = Pace::new(THIRTY, Overrun::CatchUp(2), 0);
        expect(
            pace,
            &[
                (200_000_000, 33_333_333, true, 0),
                (201_000_000, 66_666_666, true, 0),
                (202_000_000, 200_000_000, true, 3),
                (203_000_000, 233_333_333, false, 0),
            ],
        );
    }

    #[test]
    fn a_tick_that_is_always_too_long_skips_after_each_run_of_so_many() {
        // 50 Hz, points each 20 ms, and each tick takes 30: two at once, then one is skipped, again and again.
        let pace = Pace::new(Rate { num: 50, den: 1 }, Overrun::CatchUp(2), 0);
        let ms = 1_000_000;
        expect(
            pace,
            &[
                (30 * ms, 20 * ms, true, 0),
                (60 * ms, 40 * ms, true, 0),
                (90 * ms, 80 * ms, true, 1),
                (120 * ms, 100 * ms, true, 0),
                (150 * ms, 120 * ms, true, 0),
                (180 * ms, 180 * ms, true, 2),
            ],
        );
    }

    #[test]
    fn being_on_time_once_begins_a_new_run() {
        // 50 Hz, at most 1: a tick of 25 ms each time, one of 5 ms between them.
        let pace = Pace::new(Rate { num: 50, den: 1 }, Overrun::CatchUp(1), 0);
        let ms = 1_000_000;
        expect(
            pace,
            &[
                (25 * ms, 20 * ms, true, 0),
                (30 * ms, 40 * ms, false, 0),
                (65 * ms, 60 * ms, true, 0),
                // Behind still, and the run is over: of the last point, of which none is skipped.
                (90 * ms, 80 * ms, true, 0),
                (115 * ms, 100 * ms, true, 0),
            ],
        );
    }

    #[test]
    fn to_catch_up_by_none_is_to_skip() {
        let (mut none, mut skip) = (Pace::new(NTSC, Overrun::CatchUp(0), 7), Pace::new(NTSC, Overrun::Skip, 7));
        for now in (0..200).map(|turn| 7 + turn * turn * 1_000_000) {
            assert_eq!(none.next(now), skip.next(now));
        }
    }

    #[test]
    fn after_being_parked_nothing_is_caught_up_with() {
        let mut pace = Pace::new(THIRTY, Overrun::CatchUp(1), 0);
        assert!(pace.next(70_000_000).late);
        assert_eq!(pace.resume(200_000_001), pace.time(7));
        // A run of its own: one at once, then the last point that has passed.
        assert_eq!(pace.next(300_000_000), Next { at: pace.time(8), late: true, missed: 0 });
        assert_eq!(pace.next(300_000_000), Next { at: pace.time(9), late: true, missed: 0 });
        assert_eq!(pace.next(300_000_000), Next { at: pace.time(10), late: false, missed: 0 });
    }

    #[test]
    fn time_spent_parked_is_not_missed() {
        let mut pace = Pace::new(SIXTY, Overrun::Skip, 0);
        pace.next(0);
        assert_eq!(pace.resume(1_000_000_001), pace.time(61));
        assert_eq!(pace.next(pace.time(61)).missed, 0);
    }

    #[test]
    fn a_clock_that_jumps_to_its_end_or_back_ends_nothing() {
        for rate in
            [Rate { num: 1_000_000_000, den: 1 }, Rate { num: u32::MAX, den: 5 }, Rate { num: 1, den: u32::MAX }]
        {
            for overrun in [Overrun::Skip, Overrun::CatchUp(u32::MAX)] {
                let mut pace = Pace::new(rate, overrun, 0);
                let mut point = 0;
                for now in [u64::MAX, u64::MAX, 0, u64::MAX - 1, u64::MAX] {
                    pace.next(now);
                    pace.resume(now);
                    assert!(pace.point() >= point, "{rate:?}: it goes back from {point}");
                    point = pace.point();
                }
            }
        }
    }

    #[test]
    fn the_last_point_is_found_exactly_at_any_distance() {
        for rate in [SIXTY, NTSC, Rate { num: 7, den: 3 }] {
            let pace = Pace::new(rate, Overrun::Skip, 99);
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
