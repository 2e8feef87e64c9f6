//! How values travel to and from both databases, without the derive macros of sqlx (they cost a third of its build).

use std::sync::Arc;

use kitbag_model::Timestamp;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgTypeInfo, PgValueRef};
use sqlx::sqlite::{SqliteArgumentsBuffer, SqliteTypeInfo, SqliteValueRef};
use sqlx::types::time::OffsetDateTime;
use sqlx::{Decode, Encode, Postgres, Sqlite, Type};

/// Declares a row and how it is read from either database.
macro_rules! row {
    ($name:ident { $($field:ident: $type:ty),+ $(,)? }) => {
        pub(crate) struct $name { $(pub(crate) $field: $type),+ }
        $crate::row::row!(@from sqlx::sqlite::SqliteRow, $name { $($field),+ });
        $crate::row::row!(@from sqlx::postgres::PgRow, $name { $($field),+ });
    };
    (@from $row:ty, $name:ident { $($field:ident),+ }) => {
        impl sqlx::FromRow<'_, $row> for $name {
            fn from_row(row: &$row) -> sqlx::Result<Self> {
                use sqlx::Row as _;
                Ok(Self { $($field: row.try_get(stringify!($field))?),+ })
            }
        }
    };
}
pub(crate) use row;

/// A time in a column: text of one width on SQLite, `TIMESTAMPTZ` on PostgreSQL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At(pub(crate) Timestamp);

impl Type<Sqlite> for At {
    fn type_info() -> SqliteTypeInfo {
        <String as Type<Sqlite>>::type_info()
    }
}

impl Encode<'_, Sqlite> for At {
    fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Sqlite>::encode(self.0.to_string(), buffer)
    }
}

impl<'r> Decode<'r, Sqlite> for At {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        Ok(Self(<&str as Decode<'r, Sqlite>>::decode(value)?.parse()?))
    }
}

impl Type<Postgres> for At {
    fn type_info() -> PgTypeInfo {
        <OffsetDateTime as Type<Postgres>>::type_info()
    }
}

impl Encode<'_, Postgres> for At {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode(self.0.as_datetime(), buffer)
    }
}

impl<'r> Decode<'r, Postgres> for At {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        Ok(Self(<OffsetDateTime as Decode<'r, Postgres>>::decode(value)?.into()))
    }
}

/// The same for a time that several rows have: its text is written once.
#[derive(Clone, Debug)]
pub(crate) struct SharedAt(Timestamp, Arc<str>);

impl From<Timestamp> for SharedAt {
    fn from(at: Timestamp) -> Self {
        Self(at, at.to_string().into())
    }
}

impl Type<Sqlite> for SharedAt {
    fn type_info() -> SqliteTypeInfo {
        <At as Type<Sqlite>>::type_info()
    }
}

impl Encode<'_, Sqlite> for SharedAt {
    fn encode(self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Sqlite>::encode(self.1, buffer)
    }

    fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Sqlite>::encode(Arc::clone(&self.1), buffer)
    }
}

impl Type<Postgres> for SharedAt {
    fn type_info() -> PgTypeInfo {
        <At as Type<Postgres>>::type_info()
    }
}

impl Encode<'_, Postgres> for SharedAt {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode(At(self.0), buffer)
    }
}
