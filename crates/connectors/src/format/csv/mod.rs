//! CSV: rows of fields between delimiters, in the dialects that Flink's options describe, and those with blanks between
//! columns.

use crate::ConnectorError;
use crate::options::Options;

pub(crate) mod split;

pub(crate) mod sniff;

pub(crate) mod write;

/// The option to skip a header.
pub(crate) const IGNORE_FIRST_LINE: &str = "csv.ignore-first-line";

/// How rows and fields are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// UTF-8 of the delimiter.
    pub(crate) delimiter: Vec<u8>,
    /// A run of delimiters counts as one, and none counts at the ends of a row. Where the delimiter is a blank, spaces
    /// and tabs both are.
    pub(crate) delimiter_run: bool,
    /// Begins and ends fields that hold delimiters or line ends.
    pub(crate) quote: Option<u8>,
    /// Takes away the next character's meaning.
    pub(crate) escape: Option<u8>,
    /// Rows that begin with it are no rows.
    pub(crate) comment: Option<u8>,
    /// Blanks around fields are not part of them.
    pub(crate) trim: bool,
    /// The first row names the columns.
    pub(crate) header: bool,
    /// The first row is no row, whatever it says.
    pub(crate) ignores_first: bool,
}

impl Dialect {
    /// The dialect that a table's options describe. `delimiter_default` is the delimiter if they name none.
    pub(crate) fn new(options: &Options, delimiter_default: char) -> Result<Dialect, ConnectorError> {
        let given_delimiter = options.character("csv.field-delimiter")?;
        let quote = ascii(options, "csv.quote-character")?;
        let disable_quote = options.boolean("csv.disable-quote-character")?;
        let allow_comments = options.boolean("csv.allow-comments")?;
        let comment = ascii(options, "csv.comment-character")?;
        let delimiter_run = options.boolean("csv.delimiter-run")?;
        let delimiter = given_delimiter.unwrap_or(if delimiter_run { ' ' } else { delimiter_default });
        let dialect = Dialect {
            delimiter: delimiter.to_string().into_bytes(),
            delimiter_run,
            quote: if disable_quote { None } else { quote.or(Some(b'"')) },
            escape: ascii(options, "csv.escape-character")?,
            comment: comment.or(allow_comments.then_some(b'#')),
            trim: options.boolean("csv.trim")?,
            header: options.boolean("csv.header")?,
            ignores_first: options.boolean(IGNORE_FIRST_LINE)?,
        };
        if dialect.header && dialect.ignores_first {
            let problem = "cannot be 'true' together with 'csv.header' = 'true'";
            return Err(ConnectorError::option(IGNORE_FIRST_LINE, problem));
        }
        if disable_quote && quote.is_some() {
            let problem = "cannot be given together with 'csv.disable-quote-character' = 'true'";
            return Err(ConnectorError::option("csv.quote-character", problem));
        }
        let named = [
            ("csv.field-delimiter", dialect.delimiter.first().copied().filter(|_| dialect.delimiter.len() == 1)),
            ("csv.quote-character", dialect.quote),
            ("csv.escape-character", dialect.escape),
            ("csv.comment-character", dialect.comment),
        ];
        for (index, &(name, character)) in named.iter().enumerate() {
            if matches!(character, Some(b'\n' | b'\r')) {
                return Err(ConnectorError::option(name, "cannot be a line end"));
            }
            let same = named[..index].iter().find(|(_, other)| other.is_some() && *other == character);
            if let Some((other, _)) = same {
                return Err(ConnectorError::option(name, format!("cannot be the same character as '{other}'")));
            }
        }
        Ok(dialect)
    }

    /// One field a line: what it says, with all its quotes and delimiters.
    pub(crate) fn of_lines() -> Dialect {
        Dialect {
            delimiter: b"\n".to_vec(),
            delimiter_run: false,
            quote: None,
            escape: None,
            comment: None,
            trim: false,
            header: false,
            ignores_first: false,
        }
    }

    /// Whether the first row is not one of the table's.
    pub(crate) fn has_first_row(&self) -> bool {
        self.header || self.ignores_first
    }

    /// Whether spaces and tabs both delimit.
    pub(crate) fn delimits_by_blanks(&self) -> bool {
        self.delimiter_run && matches!(*self.delimiter, [b' ' | b'\t'])
    }
}

fn ascii(options: &Options, name: &'static str) -> Result<Option<u8>, ConnectorError> {
    match options.character(name)? {
        None => Ok(None),
        Some(character) if character.is_ascii() => Ok(Some(character as u8)),
        Some(character) => Err(ConnectorError::option(name, format!("must be an ASCII character, not '{character}'"))),
    }
}

/// A field without its escapes. `quote` is that of a quoted field.
pub(crate) fn unescape(field: &[u8], quote: Option<u8>, escape: Option<u8>) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut bytes = field.iter().copied();
    while let Some(byte) = bytes.next() {
        if Some(byte) == escape {
            out.push(match bytes.next() {
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'0') => 0,
                Some(other) => other,
                None => byte,
            });
        } else {
            out.push(byte);
            if Some(byte) == quote {
                // Two quotes stand for one.
                bytes.next();
            }
        }
    }
    out
}
