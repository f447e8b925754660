//! Files that stand where a table does: `'trades.csv'`, and calls of `read_csv`, `read_json`, `read_parquet` and `read_lines`.
//!
//! Each becomes the name of a table of its own. Whoever executes the statement defines these tables first.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, Spanned,
    TableAlias, TableFactor, UnaryOperator, Value, VisitMut, VisitorMut,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::errors::{Place, PlanError, closest};
use crate::parse::reader::Reader;
use crate::parse::statement::{FileArgument, FileTable, OptionPlace};
use crate::parse::vocabulary::{READERS, SYNONYMS, TABLE_ARGUMENT_PREFIX, is_blank, reader_function};

/// Takes a file, or a call of a function that reads files, if one comes next.
pub(super) fn take(reader: &mut Reader) -> Result<Option<FileTable>, PlanError> {
    let [first, second] = reader.parser.peek_tokens::<2>();
    match (&first, &second) {
        (Token::SingleQuotedString(path), _) => {
            let span = reader.parser.next_token().span;
            Ok(Some(FileTable::of_path(path, span)))
        }
        (Token::Word(word), Token::LParen) if reader_function(&word.value).is_some() => {
            let (expression, _) = reader.expression()?;
            let Expr::Function(call) = &expression else {
                return Err(PlanError::syntax(Place::of(expression.span()), "expected a file"));
            };
            FileTable::of_call(&call.name, &arguments_of(&call.args)).map(Some)
        }
        _ => Ok(None),
    }
}

/// Takes the files out of a query: names of tables stand in their places.
pub(super) fn take_from_query(query: &mut Query, files: &mut Vec<FileTable>) -> Result<(), PlanError> {
    match query.visit(&mut Files { found: files }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Finds where the paths stand that the parser has left without a place: behind a word that a table follows, or a comma.
pub(super) fn find_places<'t>(files: &mut [FileTable], tokens: impl Iterator<Item = &'t TokenWithSpan>) {
    let mut before = &Token::EOF;
    for token in tokens.filter(|token| !is_blank(token)) {
        let is_followed = match before {
            Token::Word(word) => matches!(word.keyword, Keyword::FROM | Keyword::JOIN | Keyword::TABLE),
            other => *other == Token::Comma,
        };
        before = &token.token;
        let Token::SingleQuotedString(path) = &token.token else { continue };
        let mut unplaced = files.iter_mut().filter(|file| file.place.is_none() && file.path == *path);
        if let Some(file) = unplaced.next().filter(|_| is_followed) {
            file.place = Place::at(token.span.start);
            file.path_place = file.place;
        }
    }
}

struct Files<'a> {
    found: &'a mut Vec<FileTable>,
}

impl VisitorMut for Files<'_> {
    type Break = PlanError;

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<PlanError> {
        let (name, alias, arguments) = match table {
            TableFactor::Table { name, alias, args, .. } => {
                let arguments = args.take_if(|_| is_reader(name)).map(|arguments| arguments.args);
                (name, alias, arguments)
            }
            TableFactor::TableFunction { expr: Expr::Function(call), alias } if is_reader(&call.name) => {
                let (mut name, mut alias) = (call.name.clone(), alias.take());
                let arguments = arguments_of(&call.args);
                self.replace(&mut name, &mut alias, Some(arguments))?;
                *table = named_table(name, alias);
                return ControlFlow::Continue(());
            }
            _ => return ControlFlow::Continue(()),
        };
        self.replace(name, alias, arguments)
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<PlanError> {
        let Expr::Prefixed { prefix, value } = expression else { return ControlFlow::Continue(()) };
        if prefix.value != TABLE_ARGUMENT_PREFIX {
            return ControlFlow::Continue(());
        }
        let table = match value.as_mut() {
            Expr::Tuple(parts) => parts.first_mut(),
            other => Some(other),
        };
        let file = match table.as_deref() {
            Some(Expr::Identifier(name)) if name.quote_style == Some('\'') => {
                FileTable::of_path(&name.value, name.span)
            }
            Some(Expr::Function(call)) => match FileTable::of_call(&call.name, &arguments_of(&call.args)) {
                Ok(file) => file,
                Err(error) => return ControlFlow::Break(error),
            },
            _ => return ControlFlow::Continue(()),
        };
        let span = table.as_ref().map_or_else(Span::empty, |table| table.span());
        if let Some(table) = table {
            *table = Expr::Identifier(Ident::with_quote_and_span('`', span, &file.name));
        }
        self.found.push(file);
        ControlFlow::Continue(())
    }
}

impl Files<'_> {
    /// Replaces the name of a file, or of a function that reads files, by that of its table. Columns are then qualified by the file's name without its extension, if there is no alias.
    fn replace(
        &mut self,
        name: &mut ObjectName,
        alias: &mut Option<TableAlias>,
        arguments: Option<Vec<FunctionArg>>,
    ) -> ControlFlow<PlanError> {
        let span = name.span();
        let file = match (&arguments, name.0.as_slice()) {
            (Some(arguments), _) => match FileTable::of_call(name, arguments) {
                Ok(file) => file,
                Err(error) => return ControlFlow::Break(error),
            },
            (None, [ObjectNamePart::Identifier(part)]) if part.quote_style == Some('\'') => {
                FileTable::of_path(&part.value, part.span)
            }
            _ => return ControlFlow::Continue(()),
        };
        *name = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote_and_span('`', span, &file.name))]);
        if alias.is_none() {
            let stem = Ident::with_quote_and_span('`', span, stem(&file.path));
            *alias = Some(TableAlias { explicit: false, name: stem, columns: Vec::new(), at: None });
        }
        self.found.push(file);
        ControlFlow::Continue(())
    }
}

fn is_reader(name: &ObjectName) -> bool {
    let name = name.to_string();
    reader_function(&name).is_some() || SYNONYMS.iter().any(|(synonym, _)| synonym.eq_ignore_ascii_case(&name))
}

/// A table by its name, and nothing else, in FROM.
pub(crate) fn named_table(name: ObjectName, alias: Option<TableAlias>) -> TableFactor {
    TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

fn arguments_of(arguments: &FunctionArguments) -> Vec<FunctionArg> {
    match arguments {
        FunctionArguments::List(list) => list.args.clone(),
        _ => Vec::new(),
    }
}

/// A file's name without folders and extensions.
pub(crate) fn stem(path: &str) -> &str {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    match name.split_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

impl FileTable {
    fn of_path(path: &str, span: Span) -> FileTable {
        let place = Place::of(span);
        FileTable {
            name: quoted(path),
            place,
            path: path.to_string(),
            path_place: place,
            format: None,
            arguments: Vec::new(),
        }
    }

    fn of_call(name: &ObjectName, arguments: &[FunctionArg]) -> Result<FileTable, PlanError> {
        let place = Place::of(name.span());
        let written = name.to_string();
        let Some((function, format)) = reader_function(&written) else {
            let meant = SYNONYMS.into_iter().find(|(synonym, _)| synonym.eq_ignore_ascii_case(&written));
            let meant = meant.map(|(_, reader)| reader);
            let meant = meant.or_else(|| closest(&written.to_lowercase(), READERS.map(|(reader, _)| reader)));
            let error = PlanError::invalid(place, format!("there is no function {written} that reads files"));
            return Err(error.with_hint(format!("write {}('file', name => value)", meant.unwrap_or("read_csv"))));
        };
        let usage = format!("write {function}('file', name => value)");
        let (path, rest) = match arguments.split_first() {
            Some((FunctionArg::Unnamed(FunctionArgExpr::Expr(path)), rest)) => (path, rest),
            _ => return Err(PlanError::invalid(place, format!("{function} lacks its file")).with_hint(usage)),
        };
        let Some(Value::SingleQuotedString(path_text)) = literal(path) else {
            let error = PlanError::invalid(Place::of(path.span()), format!("{function} takes the path of a file"));
            return Err(error.with_hint(format!("{usage}, the path in single quotes")));
        };
        let arguments =
            rest.iter().map(|argument| named_argument(function, argument)).collect::<Result<Vec<_>, _>>()?;
        let written: Vec<String> =
            arguments.iter().map(|argument| format!(", {} => {}", argument.name, quoted(&argument.value))).collect();
        Ok(FileTable {
            name: format!("{function}({}{})", quoted(path_text), written.concat()),
            place,
            path: path_text.clone(),
            path_place: Place::of(path.span()),
            format: Some(format),
            arguments,
        })
    }
}

fn named_argument(function: &str, argument: &FunctionArg) -> Result<FileArgument, PlanError> {
    let FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } = argument else {
        let error = PlanError::invalid(Place::of(argument.span()), format!("the options of {function} have names"));
        return Err(error.with_hint("write name => value, as in header => TRUE"));
    };
    let places = OptionPlace { key: Place::of(name.span), value: Place::of(value.span()) };
    let text = match (literal(value), value) {
        (Some(Value::SingleQuotedString(text)), _) => Some(text.clone()),
        (Some(Value::Boolean(value)), _) => Some(value.to_string()),
        (Some(Value::Number(number, _)), _) => Some(number.clone()),
        (_, Expr::UnaryOp { op: UnaryOperator::Minus, expr }) => match literal(expr) {
            Some(Value::Number(number, _)) => Some(format!("-{number}")),
            _ => None,
        },
        _ => None,
    };
    match text {
        Some(value) => Ok(FileArgument { name: name.value.clone(), value, places }),
        None => {
            let error = PlanError::invalid(places.value, format!("the option {name} of {function} takes a constant"));
            Err(error.with_hint("write TRUE, FALSE, a number, or a text in single quotes"))
        }
    }
}

fn literal(expression: &Expr) -> Option<&Value> {
    match expression {
        Expr::Value(value) => Some(&value.value),
        _ => None,
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
