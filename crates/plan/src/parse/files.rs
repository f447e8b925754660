//! Files that stand where a table does: `'trades.csv'`, and calls of `read_csv`, `read_json`, `read_parquet` and `read_lines`.
//!
//! Each becomes the name of a table of its own. Whoever executes the statement defines these tables first.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, Select, Spanned,
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

/// Takes the files out of a query, which has these tokens: names of tables stand in their places.
pub(super) fn take_from_query<'t>(
    query: &mut Query,
    files: &mut Vec<FileTable>,
    tokens: impl Iterator<Item = &'t TokenWithSpan>,
) -> Result<(), PlanError> {
    let before = files.len();
    let mut walk = Files { found: files, homonym: None };
    let visited = query.visit(&mut walk);
    let homonym = walk.homonym;
    if let ControlFlow::Break(error) = visited {
        return Err(error);
    }
    let files = &mut files[before..];
    find_places(files, tokens);
    let Some(path) = homonym else { return Ok(()) };
    let place = files.iter().rfind(|file| file.path == path).and_then(|file| file.path_place);
    let name = stem(&path);
    let error =
        PlanError::invalid(place, format!("two tables in FROM have the name {name}, which is that of the file"));
    Err(error.with_hint(format!("give the file another: {} AS {name}_2", quoted(&path))))
}

/// Finds where the paths stand that the parser has left without a place: behind a word that a table follows, or a comma.
fn find_places<'t>(files: &mut [FileTable], tokens: impl Iterator<Item = &'t TokenWithSpan>) {
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
    /// The path of a file that has the name of another table in the same FROM.
    homonym: Option<String>,
}

impl VisitorMut for Files<'_> {
    type Break = PlanError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<PlanError> {
        let tables = select
            .from
            .iter()
            .flat_map(|table| std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)));
        let mut names: Vec<(&str, Option<&str>)> = Vec::new();
        for table in tables {
            let path = path_without_alias(table);
            let Some(name) = path.map(stem).or_else(|| name_of(table)) else { continue };
            if let Some((_, known)) = names.iter().find(|(known, _)| *known == name) {
                self.homonym = self.homonym.take().or_else(|| path.or(*known).map(str::to_string));
            }
            names.push((name, path));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<PlanError> {
        let path = path_without_alias(table).map(str::to_string);
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
            TableFactor::TableFunction { expr, alias } => {
                *alias = alias.take().or_else(|| path.map(|path| stem_alias(&path, expr.span())));
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
        alias.get_or_insert_with(|| stem_alias(&file.path, span));
        self.found.push(file);
        ControlFlow::Continue(())
    }
}

/// A file's name without its extension as an alias.
fn stem_alias(path: &str, span: Span) -> TableAlias {
    let name = Ident::with_quote_and_span('`', span, stem(path));
    TableAlias { explicit: false, name, columns: Vec::new(), at: None }
}

/// The path of a file in FROM that has no alias, be it the argument of a window function.
fn path_without_alias(table: &TableFactor) -> Option<&str> {
    match table {
        TableFactor::Table { name, alias: None, args: Some(arguments), .. } if is_reader(name) => {
            path_of(&arguments.args)
        }
        TableFactor::Table { name, alias: None, args: None, .. } => match name.0.as_slice() {
            [ObjectNamePart::Identifier(part)] => path_in_quotes(part),
            _ => None,
        },
        TableFactor::TableFunction { expr: Expr::Function(call), alias: None } => match is_reader(&call.name) {
            true => path_of(listed(&call.args)),
            false => listed(&call.args).iter().find_map(path_of_argument),
        },
        _ => None,
    }
}

/// The path of `TABLE 'file' [PARTITION BY …]`, the argument of a window function.
fn path_of_argument(argument: &FunctionArg) -> Option<&str> {
    let (FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))
    | FunctionArg::Named { arg: FunctionArgExpr::Expr(argument), .. }) = argument
    else {
        return None;
    };
    let table = match argument {
        Expr::Prefixed { prefix, value } if prefix.value == TABLE_ARGUMENT_PREFIX => match value.as_ref() {
            Expr::Tuple(parts) => parts.first()?,
            other => other,
        },
        _ => return None,
    };
    match table {
        Expr::Identifier(name) => path_in_quotes(name),
        Expr::Function(call) if is_reader(&call.name) => path_of(listed(&call.args)),
        _ => None,
    }
}

fn path_in_quotes(name: &Ident) -> Option<&str> {
    (name.quote_style == Some('\'')).then_some(name.value.as_str())
}

/// The path among the arguments of a function that reads files.
fn path_of(arguments: &[FunctionArg]) -> Option<&str> {
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(path))) = arguments.first() else { return None };
    match literal(path) {
        Some(Value::SingleQuotedString(path)) => Some(path),
        _ => None,
    }
}

/// What columns of a table in FROM are qualified by.
fn name_of(table: &TableFactor) -> Option<&str> {
    let (name, alias) = match table {
        TableFactor::Table { name, alias, .. } => (name.0.last().and_then(ObjectNamePart::as_ident), alias),
        TableFactor::Derived { alias, .. } | TableFactor::TableFunction { alias, .. } => (None, alias),
        _ => return None,
    };
    alias.as_ref().map(|alias| &alias.name).or(name).map(|name| name.value.as_str())
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
    listed(arguments).to_vec()
}

fn listed(arguments: &FunctionArguments) -> &[FunctionArg] {
    match arguments {
        FunctionArguments::List(list) => &list.args,
        _ => &[],
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
