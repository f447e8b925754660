//! SQL types of the engine as types of Postgres.

use pelton::arrow::datatypes::{DataType, Field};

use crate::print::has_other_keys;

/// A type as Postgres numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PgType {
    pub oid: u32,
    /// Bytes of a value, or -1 where they vary.
    pub size: i16,
    /// Of a number with so many digits which these are, or -1.
    pub modifier: i32,
}

const fn fixed(oid: u32, size: i16) -> PgType {
    PgType { oid, size, modifier: -1 }
}

const fn variable(oid: u32) -> PgType {
    fixed(oid, -1)
}

pub const BOOL: PgType = fixed(16, 1);
pub const BYTEA: PgType = variable(17);
pub const INT8: PgType = fixed(20, 8);
pub const INT2: PgType = fixed(21, 2);
pub const INT4: PgType = fixed(23, 4);
pub const TEXT: PgType = variable(25);
pub const JSON: PgType = variable(114);
pub const FLOAT4: PgType = fixed(700, 4);
pub const FLOAT8: PgType = fixed(701, 8);
pub const UNKNOWN: PgType = fixed(705, -2);
pub const BPCHAR: PgType = variable(1042);
pub const VARCHAR: PgType = variable(1043);
pub const DATE: PgType = fixed(1082, 4);
pub const TIME: PgType = fixed(1083, 8);
pub const TIMESTAMP: PgType = fixed(1114, 8);
pub const TIMESTAMPTZ: PgType = fixed(1184, 8);
pub const NUMERIC: PgType = variable(1700);

/// Element types and the arrays of them.
const ARRAYS: [(u32, u32); 13] = [
    (BOOL.oid, 1000),
    (BYTEA.oid, 1001),
    (INT2.oid, 1005),
    (INT4.oid, 1007),
    (TEXT.oid, 1009),
    (INT8.oid, 1016),
    (FLOAT4.oid, 1021),
    (FLOAT8.oid, 1022),
    (TIMESTAMP.oid, 1115),
    (DATE.oid, 1182),
    (TIMESTAMPTZ.oid, 1185),
    (NUMERIC.oid, 1231),
    (JSON.oid, 199),
];

/// The type of Postgres that holds the values of a type. `ROW` and `MAP` are JSON, and so is an `ARRAY` of arrays: those of Postgres are rectangular.
/// A `MAP` whose keys are no strings, and what is in it, is text.
pub fn pg_type(data_type: &DataType) -> PgType {
    match data_type {
        DataType::Boolean => BOOL,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => INT2,
        DataType::Int32 | DataType::UInt16 => INT4,
        DataType::Int64 | DataType::UInt32 => INT8,
        DataType::Float16 | DataType::Float32 => FLOAT4,
        DataType::Float64 => FLOAT8,
        DataType::UInt64 => NUMERIC,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => {
            let modifier = (i32::from(*precision) << 16 | i32::from(*scale)) + 4;
            PgType { modifier, ..NUMERIC }
        }
        binary if binary.is_binary() => BYTEA,
        DataType::Date32 | DataType::Date64 => DATE,
        DataType::Timestamp(_, None) => TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => TIMESTAMPTZ,
        nested if nested.is_nested() && has_other_keys(nested) => TEXT,
        DataType::List(item) => array(item),
        DataType::Struct(_) | DataType::Map(..) => JSON,
        _ => TEXT,
    }
}

fn array(item: &Field) -> PgType {
    let element = match item.data_type() {
        DataType::List(_) => return JSON,
        other => pg_type(other).oid,
    };
    ARRAYS.iter().find(|(of, _)| *of == element).map_or(JSON, |(_, array)| variable(*array))
}

/// The name of a type of Pelton's SQL that holds the values of a type of Postgres; `None` where there is none.
pub fn sql_type(oid: u32) -> Option<&'static str> {
    let name = match oid {
        oid if oid == BOOL.oid => "BOOLEAN",
        oid if oid == INT2.oid => "SMALLINT",
        oid if oid == INT4.oid => "INT",
        oid if oid == INT8.oid => "BIGINT",
        oid if oid == FLOAT4.oid => "FLOAT",
        oid if oid == FLOAT8.oid => "DOUBLE",
        oid if oid == NUMERIC.oid => "DECIMAL(38, 18)",
        oid if [TEXT.oid, VARCHAR.oid, BPCHAR.oid, UNKNOWN.oid, 0].contains(&oid) => "STRING",
        oid if oid == BYTEA.oid => "BYTES",
        oid if oid == DATE.oid => "DATE",
        oid if oid == TIME.oid => "TIME",
        oid if oid == TIMESTAMP.oid => "TIMESTAMP(6)",
        oid if oid == TIMESTAMPTZ.oid => "TIMESTAMP_LTZ(6)",
        _ => return None,
    };
    Some(name)
}

/// The type of Postgres for a type that is written in SQL, such as `BIGINT`.
pub fn named(name: &str) -> Option<PgType> {
    let pg_type = match name.to_ascii_uppercase().as_str() {
        "BOOLEAN" => BOOL,
        "TINYINT" | "SMALLINT" => INT2,
        "INT" | "INTEGER" => INT4,
        "BIGINT" => INT8,
        "FLOAT" => FLOAT4,
        "DOUBLE" => FLOAT8,
        "DECIMAL" | "DEC" | "NUMERIC" => NUMERIC,
        "STRING" | "VARCHAR" | "CHAR" => TEXT,
        "BYTES" | "BINARY" | "VARBINARY" => BYTEA,
        "DATE" => DATE,
        "TIME" => TIME,
        "TIMESTAMP" => TIMESTAMP,
        "TIMESTAMP_LTZ" => TIMESTAMPTZ,
        _ => return None,
    };
    Some(pg_type)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn list(item: DataType) -> DataType {
        DataType::List(Arc::new(Field::new("item", item, true)))
    }

    #[test]
    fn nested_types_are_arrays_json_or_text() {
        let row = DataType::Struct(vec![Field::new("a", DataType::Int32, true)].into());
        let map = |key: DataType| {
            let entries = DataType::Struct(
                vec![Field::new("key", key, false), Field::new("value", DataType::Int32, true)].into(),
            );
            DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
        };
        assert_eq!(pg_type(&list(DataType::Int64)).oid, 1016);
        assert_eq!(pg_type(&list(row.clone())).oid, 199);
        assert_eq!(pg_type(&list(list(DataType::Int64))), JSON);
        assert_eq!((pg_type(&row), pg_type(&map(DataType::Utf8View))), (JSON, JSON));
        assert_eq!(pg_type(&map(DataType::Int64)), TEXT);
        assert_eq!(pg_type(&list(map(DataType::Int64))), TEXT);
    }

    #[test]
    fn numbers_tell_their_digits() {
        assert_eq!(pg_type(&DataType::Decimal128(10, 2)), PgType { oid: 1700, size: -1, modifier: (10 << 16 | 2) + 4 });
    }
}
