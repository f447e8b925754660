//! Functions that are left out, by name: each with what to write instead.

/// What to write instead of a function that is left out and is a part of the language, by its name in upper case.
pub(super) fn of_syntax(name: &str) -> Option<&'static str> {
    Some(match name {
        "CURRENT_TIME" | "LOCALTIME" => "write DATE_FORMAT(LOCALTIMESTAMP, 'HH:mm:ss'): there is no type TIME",
        "TODAY" => "write CURRENT_DATE",
        "CURRENT_WATERMARK" => "SHOW PROGRESS says how far time has come",
        "RANDOM" => "write RAND()",
        "PERCENTILE_CONT_DESCENDING" => "write PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY column DESC)",
        "PERCENTILE_DISC_DESCENDING" => "write PERCENTILE_DISC(0.95) WITHIN GROUP (ORDER BY column DESC)",
        _ => return None,
    })
}

/// What to write instead of a function that is left out, by its name in upper case, unless a program has one of that name.
pub(crate) fn instead_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "STR_TO_MAP" => "use SPLIT_INDEX or REGEXP_EXTRACT for each value",
        "SPLIT" => "write SPLIT_INDEX(text, ',', 0) for each value",
        "REGEXP_EXTRACT_ALL" => "write REGEXP_EXTRACT(text, pattern, 1) for each value",
        "JSON" => "it makes values of JSON_OBJECT and JSON_ARRAY from texts; elsewhere the text is enough",
        "PARSE_JSON" | "TRY_PARSE_JSON" => "keep the text, and take values out of it with JSON_VALUE(text, '$.a')",
        "SOURCE_WATERMARK" => "write WATERMARK FOR time AS time - INTERVAL '5' SECOND in CREATE TABLE",
        "DIGEST" | "BLAKE2B" | "BLAKE2S" | "BLAKE3" => "use MD5, SHA1, SHA256 or SHA2(text, 512)",
        "STRUCT" | "NAMED_STRUCT" => "write ROW(1, 'x')",
        "GET_FIELD" | "UNION_EXTRACT" | "UNION_TAG" => "write row.field",
        "ARRAY_AGG" | "ARRAY_CONTAINS" | "ARRAY_OF" | "MAP_KEYS" | "MAP_OF" | "MAP_VALUES" => return None,
        _ if name.starts_with("ARRAY_") || name.starts_with("MAP_") => {
            "take parts of the value with array[1], map['key'], MAP_KEYS, MAP_VALUES, CARDINALITY and ARRAY_CONTAINS"
        }
        _ => return None,
    })
}
