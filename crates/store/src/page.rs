//! A part of a list.

/// Some items of a list, and whether more follow.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Whether the list goes on behind the last of them.
    pub has_more: bool,
}

impl<T> Page<T> {
    /// From rows of which one more than `limit` were asked for.
    pub(crate) fn from_rows<R, E>(mut rows: Vec<R>, limit: u32) -> Result<Self, E>
    where
        T: TryFrom<R, Error = E>,
    {
        let has_more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        Ok(Self { items: rows.into_iter().map(T::try_from).collect::<Result<_, E>>()?, has_more })
    }
}
