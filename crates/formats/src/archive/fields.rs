//! Numbers from a slice, one behind the other, each time asking whether there is so much. Knows nothing of ZIP.

/// What is left of a slice.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// From this offset of the whole, if it is so long.
    pub(super) fn at(bytes: &'a [u8], offset: usize) -> Option<Self> {
        bytes.get(offset..).map(Self)
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (chunk, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*chunk)
    }

    pub(super) fn signature(&mut self, wanted: [u8; 4]) -> Option<()> {
        (self.chunk::<4>()? == wanted).then_some(())
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_le_bytes)
    }

    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}
