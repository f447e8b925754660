//! The simple protocol: a text of statements.

use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::EmptyQueryResponse;

use super::connection::{Answer, Connection};
use super::copy::Copy;
use super::encode::Form;
use super::failure::{End, position_in};
use super::rows::description;
use crate::scan::statements;

impl Connection {
    /// Executes statements in order, up to the first that fails. A COPY statement is alone.
    pub async fn simple_query(&mut self, text: &str) -> Result<(), End> {
        if let Some(copy) = Copy::of(text) {
            return self.copy(text, copy?).await;
        }
        let statements = statements(text);
        if statements.is_empty() {
            self.outgoing.put(PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new()));
        }
        for range in statements {
            let before = text[..range.start].chars().count();
            let statement = &text[range];
            let position = |place| before + position_in(statement, place);
            match self.execute(statement, &position).await? {
                Answer::Done(tag) => self.complete(tag),
                Answer::Rows(mut rows) => {
                    self.outgoing.put(description(rows.schema(), |_| Form::Text));
                    let forms = vec![Form::Text; rows.schema().fields().len()];
                    self.send_rows(&mut rows, &forms, u64::MAX).await?;
                    self.complete(rows.tag());
                }
            }
        }
        self.ready();
        Ok(())
    }
}
