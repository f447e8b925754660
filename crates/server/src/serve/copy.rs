//! `COPY`: rows as Arrow's IPC stream, in which no type and no precision is lost.
//!
//! `COPY (statement) TO STDOUT` sends the rows of a statement. `COPY TEMPORARY TABLE` makes a table of the rows that the client sends, `COPY TABLE … FROM STDIN` one
//! that is a stream for as long as the client sends rows, and `COPY TABLE … TO STDOUT` one whose rows the client gets.

use std::ops::Range;

use bytes::BufMut;
use pelton::arrow::array::RecordBatch;
use pelton::arrow::buffer::Buffer;
use pelton::arrow::datatypes::SchemaRef;
use pelton::arrow::ipc::reader::StreamDecoder;
use pelton::arrow::ipc::writer::StreamEncoder;
use pelton::{PushSource, Session};
use pgwire::messages::copy::{CopyDone, CopyInResponse, CopyOutResponse, MESSAGE_TYPE_BYTE_COPY_DATA as COPY_DATA};
use pgwire::messages::{DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};

use super::connection::{Answer, Connection};
use super::failure::{End, position_in};
use super::rows::Batches;
use super::wire::stopped;
use crate::scan::{Kind, Token, scan};

/// Bytes of rows in one message, at most.
const DATA_BYTES_MAX: usize = 1 << 20;

/// Each message has whole bytes, and not text.
const BINARY: i8 = 1;

/// What a COPY statement says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Copy {
    /// The rows of the statement that stands there.
    Rows(Range<usize>),
    /// A table of rows that the client sends.
    Temporary(Declared),
    /// A table that is filled as long as the client sends rows.
    Stream(Declared),
    /// A table whose rows the client gets.
    Reader(Declared),
}

/// A table's name, and the list of its columns as in CREATE TABLE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    name: String,
    columns: String,
}

impl Copy {
    /// The COPY statement that a text is; `None` where it is another one.
    pub fn of(text: &str) -> Option<Result<Copy, End>> {
        let tokens: Vec<Token> = scan(text).into_iter().filter(|token| token.kind != Kind::Comment).collect();
        let tokens = match tokens.as_slice() {
            [rest @ .., end] if end.is(";") => rest,
            all => all,
        };
        match tokens {
            [copy, rest @ ..] if copy.is("COPY") => Some(parse(text, rest)),
            _ => None,
        }
    }
}

fn parse(text: &str, tokens: &[Token]) -> Result<Copy, End> {
    let (is_temporary, tokens) = match tokens {
        [temporary, rest @ ..] if temporary.is("TEMPORARY") => (true, rest),
        all => (false, all),
    };
    let (name, tokens) = match tokens {
        [table, name, rest @ ..] if table.is("TABLE") => (Some(name.name().ok_or_else(misspelled)?), rest),
        all => (None, all),
    };
    let (inside, tokens) = parenthesised(tokens).ok_or_else(misspelled)?;
    let [direction, end, options @ ..] = tokens else { return Err(misspelled()) };
    let is_from_client = match (direction.is("FROM") && end.is("STDIN"), direction.is("TO") && end.is("STDOUT")) {
        (false, false) => return Err(misspelled()),
        (is_from_client, _) => is_from_client,
    };
    check_format(options)?;
    let declared = |name| Declared { name, columns: text[inside.clone()].to_owned() };
    match (name, is_temporary, is_from_client) {
        (None, false, false) => Ok(Copy::Rows(inside)),
        (Some(name), true, true) => Ok(Copy::Temporary(declared(name))),
        (Some(name), false, true) => Ok(Copy::Stream(declared(name))),
        (Some(name), false, false) => Ok(Copy::Reader(declared(name))),
        _ => Err(misspelled()),
    }
}

/// What stands between the parenthesis with which tokens begin and the one that closes it, and the tokens behind.
fn parenthesised<'a, 'b>(tokens: &'a [Token<'b>]) -> Option<(Range<usize>, &'a [Token<'b>])> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        if token.is("(") {
            depth += 1;
        } else if token.is(")") {
            depth = depth.checked_sub(1)?;
        }
        if depth == 0 {
            let inside = tokens.first()?.range.end..token.range.start;
            return (index > 0).then_some((inside, &tokens[index + 1..]));
        }
    }
    None
}

fn check_format(options: &[Token]) -> Result<(), End> {
    let options = match options {
        [with, rest @ ..] if with.is("WITH") => rest,
        all => all,
    };
    match options {
        [open, format, arrow, close] if open.is("(") && format.is("FORMAT") && arrow.is("ARROW") && close.is(")") => {
            Ok(())
        }
        _ => Err(End::unsupported("COPY has rows in Arrow's format only", "end the statement with (FORMAT arrow)")),
    }
}

fn misspelled() -> End {
    let end = End::failed("42601", "this is no COPY statement");
    end.with_hint(
        "write COPY (query) TO STDOUT (FORMAT arrow), COPY [TEMPORARY] TABLE name (columns) FROM STDIN (FORMAT arrow), \
         or COPY TABLE name (columns) TO STDOUT (FORMAT arrow)",
    )
}

impl Connection {
    /// Executes a COPY statement, which is all that the client has sent.
    pub async fn copy(&mut self, text: &str, copy: Copy) -> Result<(), End> {
        match copy {
            Copy::Rows(range) => {
                let before = text[..range.start].chars().count();
                let statement = &text[range];
                let position = |place| before + position_in(statement, place);
                match self.execute(statement, &position).await? {
                    Answer::Done(tag) => self.complete(tag),
                    Answer::Rows(rows) => {
                        let (schema, batches) = rows.into_batches();
                        self.copy_out(&schema, batches).await?;
                    }
                }
            }
            Copy::Reader(Declared { name, columns }) => {
                let sink = self.with_session(&|_| 1, move |session| session.pull_table(&name, &columns)).await?;
                let schema = sink.schema().clone();
                self.copy_out(&schema, Batches::Table(Box::new(sink))).await?;
            }
            Copy::Stream(Declared { name, columns }) => {
                let source = self.with_session(&|_| 1, move |session| session.push_table(&name, &columns)).await?;
                self.copy_in(Received::Pushed(&source)).await?;
            }
            Copy::Temporary(Declared { name, columns }) => {
                let mut rows = Vec::new();
                // What is wrong with the columns is said before rows are sent.
                self.with_session(&|_| 1, {
                    let columns = columns.clone();
                    move |_| Session::columns(&columns)
                })
                .await?;
                self.copy_in(Received::Collected(&mut rows)).await?;
                self.with_session(&|_| 1, move |session| session.register_declared_rows(&name, &columns, rows)).await?;
            }
        }
        self.ready();
        Ok(())
    }

    /// Sends rows until there are no more.
    async fn copy_out(&mut self, schema: &SchemaRef, mut batches: Batches) -> Result<(), End> {
        let columns = i16::try_from(schema.fields().len()).map_err(End::internal)?;
        let formats = vec![i16::from(BINARY); schema.fields().len()];
        self.outgoing.put(PgWireBackendMessage::CopyOutResponse(CopyOutResponse::new(BINARY, columns, formats)));
        let mut encoder = StreamEncoder::try_new(schema).map_err(End::internal)?;
        // Tells the columns, before there are rows.
        self.put_data(&encoder.encode(&RecordBatch::new_empty(schema.clone())).map_err(End::internal)?);
        let mut rows = 0;
        loop {
            self.flush_watched().await?;
            let Some(batch) = self.interrupts.watch(&mut self.incoming, batches.next()).await? else { break };
            rows += batch.num_rows();
            self.put_data(&encoder.encode(&batch).map_err(End::internal)?);
        }
        self.put_data(&encoder.finish().map_err(End::internal)?);
        self.outgoing.put(PgWireBackendMessage::CopyDone(CopyDone::new()));
        self.tell_left_out(&mut batches).await?;
        self.complete(format!("COPY {rows}"));
        Ok(())
    }

    /// Adds messages with these bytes.
    fn put_data(&mut self, buffers: &[Buffer]) {
        let bytes: Vec<u8> = buffers.iter().map(Buffer::as_slice).collect::<Vec<_>>().concat();
        let out = &mut self.outgoing.buffer;
        for part in bytes.chunks(DATA_BYTES_MAX) {
            out.put_u8(COPY_DATA);
            out.put_u32(u32::try_from(part.len()).expect("a part is small") + 4);
            out.put_slice(part);
        }
    }

    /// Receives rows until the client says that there are no more.
    async fn copy_in(&mut self, mut received: Received<'_>) -> Result<(), End> {
        self.outgoing.put(PgWireBackendMessage::CopyInResponse(CopyInResponse::new(BINARY, 0, Vec::new())));
        self.outgoing.flush().await?;
        let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
        (context.awaiting_frontend_ssl, context.awaiting_frontend_startup) = (false, false);
        let malformed = |error| End::failed("22P04", format!("the rows are no stream of Arrow: {error}"));
        let (mut decoder, mut rows) = (StreamDecoder::new(), 0);
        loop {
            let message = tokio::select! {
                message = self.incoming.message(&context) => message?,
                () = self.interrupts.cancel.notified() => return Err(End::cancelled()),
                () = stopped(&mut self.interrupts.stopping) => return Err(End::stopping()),
            };
            match message {
                PgWireFrontendMessage::CopyData(data) => {
                    let mut bytes = Buffer::from(data.data);
                    while let Some(batch) = decoder.decode(&mut bytes).map_err(malformed)? {
                        rows += batch.num_rows();
                        self.receive(batch, &mut received).await?;
                    }
                }
                PgWireFrontendMessage::CopyDone(_) => break,
                PgWireFrontendMessage::CopyFail(failure) => {
                    return Err(End::failed("57014", format!("the client ends COPY: {}", failure.message)));
                }
                PgWireFrontendMessage::Flush(_) | PgWireFrontendMessage::Sync(_) => {}
                PgWireFrontendMessage::Terminate(_) => return Err(End::Gone),
                _ => return Err(End::protocol("a message among the rows of COPY that is not one of them")),
            }
        }
        decoder.finish().map_err(malformed)?;
        self.complete(format!("COPY {rows}"));
        Ok(())
    }

    /// Takes rows of the client. Waits while the queries that read them have enough to do.
    async fn receive(&mut self, batch: RecordBatch, received: &mut Received<'_>) -> Result<(), End> {
        match received {
            Received::Collected(rows) => rows.push(batch),
            Received::Pushed(source) => {
                let pushed = async { source.push(batch).await.map_err(|error| End::of(&error, |_| 1)) };
                self.interrupts.watch(&mut self.incoming, pushed).await?;
            }
        }
        Ok(())
    }
}

/// Where the rows of a client go.
enum Received<'a> {
    Collected(&'a mut Vec<RecordBatch>),
    Pushed(&'a PushSource),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Copy {
        Copy::of(text).expect("it is a COPY statement").expect("it is a sound one")
    }

    #[test]
    fn statements_say_whose_rows_go_where() {
        let text = "copy (SELECT ')' AS a -- )\n, (1) AS b) to stdout WITH (FORMAT arrow);";
        let Copy::Rows(range) = parsed(text) else { panic!("rows of a statement") };
        assert_eq!(&text[range], "SELECT ')' AS a -- )\n, (1) AS b");
        let declared = |name: &str, columns: &str| Declared { name: name.to_owned(), columns: columns.to_owned() };
        let columns = "a DECIMAL(4, 2)";
        assert_eq!(
            parsed("COPY TABLE `a b` (a DECIMAL(4, 2)) FROM STDIN (FORMAT arrow)"),
            Copy::Stream(declared("a b", columns))
        );
        assert_eq!(
            parsed("COPY TABLE t (a DECIMAL(4, 2)) TO STDOUT (FORMAT arrow)"),
            Copy::Reader(declared("t", columns))
        );
        assert_eq!(
            parsed("COPY TEMPORARY TABLE t (a DECIMAL(4, 2)) FROM STDIN (FORMAT arrow)"),
            Copy::Temporary(declared("t", columns))
        );
        assert!(Copy::of("SELECT 1").is_none());
    }

    #[test]
    fn other_statements_are_refused() {
        let refusal = |text: &str| match Copy::of(text) {
            Some(Err(End::Failed(info))) => info.message,
            other => panic!("{text}: {other:?}"),
        };
        for text in [
            "COPY t FROM STDIN",
            "COPY TABLE t FROM STDIN (FORMAT arrow)",
            "COPY TEMPORARY TABLE t (a INT) TO STDOUT (FORMAT arrow)",
            "COPY (SELECT 1 TO STDOUT (FORMAT arrow)",
            "COPY (SELECT 1) FROM STDIN (FORMAT arrow)",
            "COPY (SELECT 1) TO 'file' (FORMAT arrow)",
            "COPY",
        ] {
            assert_eq!(refusal(text), "this is no COPY statement", "{text}");
        }
        for text in ["COPY (SELECT 1) TO STDOUT", "COPY TABLE t (a INT) FROM STDIN WITH (FORMAT csv)"] {
            assert_eq!(refusal(text), "COPY has rows in Arrow's format only", "{text}");
        }
    }
}
