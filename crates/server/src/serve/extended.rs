//! The extended protocol: statements are prepared, their parameters bound, and their rows fetched.

use std::collections::HashMap;
use std::sync::Arc;

use pelton::arrow::datatypes::SchemaRef;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, PortalSuspended,
    TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::EmptyQueryResponse;

use super::connection::{Answer, Connection};
use super::encode::Form;
use super::failure::End;
use super::parameters::{Filled, Template, Value};
use super::rows::{Rows, description};
use super::session_command::{SessionCommand, row};
use crate::scan::statements;

/// Prepared statements of a connection, at most.
const STATEMENTS_MAX: usize = 10_000;

/// Portals of a connection, at most. Behind each may be a query that runs.
const PORTALS_MAX: usize = 100;

/// A prepared statement.
pub struct Statement {
    template: Template,
    is_empty: bool,
}

/// A statement with its parameters, and how far it has come.
pub struct Portal {
    statement: Arc<Statement>,
    filled: Arc<Filled>,
    /// Forms of the columns: none is text, and one is for all.
    forms: Vec<Form>,
    state: State,
}

enum State {
    Bound,
    Rows(Box<Rows>),
    /// Nothing more comes of it.
    Ended,
}

impl Connection {
    pub async fn parse(&mut self, parse: Parse) -> Result<(), End> {
        let name = parse.name.unwrap_or_default();
        let pieces = statements(&parse.query);
        if pieces.len() > 1 {
            return Err(End::failed("42601", "a prepared statement is one statement, and several were sent"));
        }
        if !name.is_empty() && self.statements.contains_key(&name) {
            return Err(End::failed("42P05", format!("there is a prepared statement {name} already")));
        }
        let template = Template::new(&parse.query, &parse.type_oids)?;
        if SessionCommand::of(&parse.query).is_none() {
            let filled = template.without_values();
            let position = |place| filled.position(&template.text, place);
            let text = filled.text.clone();
            self.with_session(&position, move |session| session.prepare(&text).map(drop)).await?;
        }
        check_room(&self.statements, STATEMENTS_MAX, "prepared statements")?;
        self.statements.insert(name, Arc::new(Statement { template, is_empty: pieces.is_empty() }));
        self.outgoing.put(PgWireBackendMessage::ParseComplete(ParseComplete::new()));
        Ok(())
    }

    pub fn bind(&mut self, bind: Bind) -> Result<(), End> {
        let statement = self.statement(bind.statement_name.as_deref())?;
        let codes = &bind.parameter_format_codes;
        let value = |(index, bytes): (usize, &Option<bytes::Bytes>)| {
            let code = if codes.len() == 1 { codes.first() } else { codes.get(index) };
            (form(code.copied().unwrap_or(0)), bytes.clone())
        };
        let values: Vec<_> = bind.parameters.iter().enumerate().map(value).collect();
        let values: Vec<_> =
            values.iter().map(|(form, bytes)| Value { form: *form, bytes: bytes.as_deref() }).collect();
        let filled = Arc::new(statement.template.with_values(&values)?);
        let forms = bind.result_column_format_codes.iter().map(|code| form(*code)).collect();
        let name = bind.portal_name.unwrap_or_default();
        if !name.is_empty() && self.portals.contains_key(&name) {
            return Err(End::failed("42P03", format!("there is a portal {name} already")));
        }
        check_room(&self.portals, PORTALS_MAX, "portals")?;
        self.portals.insert(name, Portal { statement, filled, forms, state: State::Bound });
        self.outgoing.put(PgWireBackendMessage::BindComplete(BindComplete::new()));
        Ok(())
    }

    pub async fn describe(&mut self, describe: &Describe) -> Result<(), End> {
        let name = describe.name.as_deref();
        let (statement, filled, forms) = if describe.target_type == TARGET_TYPE_BYTE_STATEMENT {
            let statement = self.statement(name)?;
            let types = statement.template.types.clone();
            self.outgoing.put(PgWireBackendMessage::ParameterDescription(ParameterDescription::new(types)));
            let filled = Arc::new(statement.template.without_values());
            (statement, filled, Vec::new())
        } else {
            let name = name.unwrap_or_default();
            let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
            (portal.statement.clone(), portal.filled.clone(), portal.forms.clone())
        };
        let message = match self.schema(&statement, &filled).await? {
            Some(schema) => description(&schema, |index| form_of(&forms, index)),
            None => PgWireBackendMessage::NoData(NoData::new()),
        };
        self.outgoing.put(message);
        Ok(())
    }

    /// The columns of a statement's rows.
    async fn schema(&mut self, statement: &Statement, filled: &Arc<Filled>) -> Result<Option<SchemaRef>, End> {
        match SessionCommand::of(&filled.text) {
            Some(SessionCommand::Value { column, value }) => return Ok(Some(row(&column, &value).schema())),
            Some(_) => return Ok(None),
            None => {}
        }
        let position = |place| filled.position(&statement.template.text, place);
        let text = filled.text.clone();
        let schema = self.with_session(&position, move |session| {
            let statements = session.prepare(&text)?;
            statements.first().map_or(Ok(None), |statement| session.describe(statement))
        });
        schema.await
    }

    pub async fn execute_portal(&mut self, execute: &Execute) -> Result<(), End> {
        let name = execute.name.as_deref().unwrap_or_default();
        // A portal whose statement fails is gone.
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        if portal.statement.is_empty {
            self.outgoing.put(PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new()));
            self.portals.insert(name.to_owned(), portal);
            return Ok(());
        }
        if matches!(portal.state, State::Bound) {
            let (statement, filled) = (portal.statement.clone(), portal.filled.clone());
            let position = move |place| filled.position(&statement.template.text, place);
            let text = portal.filled.text.trim_end().trim_end_matches(';').to_owned();
            portal.state = match self.execute(&text, &position).await? {
                Answer::Rows(rows) => State::Rows(rows),
                Answer::Done(tag) => {
                    self.complete(tag);
                    State::Ended
                }
            };
            if matches!(portal.state, State::Ended) {
                self.portals.insert(name.to_owned(), portal);
                return Ok(());
            }
        }
        let State::Rows(rows) = &mut portal.state else {
            self.complete("SELECT 0".to_owned());
            self.portals.insert(name.to_owned(), portal);
            return Ok(());
        };
        let columns = rows.schema().fields().len();
        let forms: Vec<Form> = (0..columns).map(|index| form_of(&portal.forms, index)).collect();
        let wanted = u64::try_from(execute.max_rows).ok().filter(|rows| *rows > 0).unwrap_or(u64::MAX);
        if self.send_rows(rows, &forms, wanted).await? {
            let tag = rows.tag();
            self.complete(tag);
            portal.state = State::Ended;
        } else {
            self.outgoing.put(PgWireBackendMessage::PortalSuspended(PortalSuspended::new()));
        }
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    pub fn close(&mut self, close: &Close) -> Result<(), End> {
        let name = close.name.as_deref().unwrap_or_default();
        if close.target_type == TARGET_TYPE_BYTE_STATEMENT {
            self.statements.remove(name);
        } else {
            self.portals.remove(name);
        }
        self.outgoing.put(PgWireBackendMessage::CloseComplete(CloseComplete::new()));
        Ok(())
    }

    fn statement(&self, name: Option<&str>) -> Result<Arc<Statement>, End> {
        let name = name.unwrap_or_default();
        let statement = self.statements.get(name).cloned();
        statement.ok_or_else(|| End::failed("26000", format!("there is no prepared statement '{name}'")))
    }
}

fn no_portal(name: &str) -> End {
    End::failed("34000", format!("there is no portal '{name}'"))
}

fn check_room<T>(held: &HashMap<String, T>, most: usize, what: &str) -> Result<(), End> {
    match held.len() < most {
        true => Ok(()),
        false => Err(End::failed(
            "53400",
            format!("a connection has at most {most} {what}: close those that are not needed"),
        )),
    }
}

fn form(code: i16) -> Form {
    if code == 1 { Form::Binary } else { Form::Text }
}

/// The form of a column: that of all where only one was given, and text where none was.
fn form_of(forms: &[Form], index: usize) -> Form {
    let form = if forms.len() == 1 { forms.first() } else { forms.get(index) };
    form.copied().unwrap_or(Form::Text)
}
