//! Random numbers that can be had again by their seed.

/// SplitMix64.
#[derive(Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Of `KITBAG_STORM_SEED`, or of the time. Says which.
    pub(crate) fn throw() -> Self {
        let seed = std::env::var("KITBAG_STORM_SEED").map_or_else(
            |_| std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 % 1_000_000,
            |text| text.parse().expect("KITBAG_STORM_SEED is a number"),
        );
        println!("the same faults again: KITBAG_STORM_SEED={seed}");
        Self(seed)
    }

    /// Others, that depend on these and a number.
    pub(crate) fn of(&self, number: u64) -> Self {
        Self(self.0.wrapping_add(number.wrapping_mul(0x2545_F491_4F6C_DD1D)))
    }

    /// A number of a range.
    pub(crate) fn within(&mut self, range: std::ops::Range<u64>) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        range.start + (mixed ^ (mixed >> 31)) % (range.end - range.start)
    }

    /// Puts things into another order.
    pub(crate) fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            things.swap(last, self.within(0..last as u64 + 1) as usize);
        }
    }
}
