//! A connection: its start, the loop over its messages, and how a statement is executed.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::BytesMut;
use pelton::query::QueryControl;
use pelton::{Error, Outcome, Place, Query, Session};
use pgwire::error::SEVERITY_FATAL;
use pgwire::messages::cancel::CancelRequest;
use pgwire::messages::response::{CommandComplete, ReadyForQuery, SslResponse, TransactionStatus};
use pgwire::messages::startup::{
    Authentication, BackendKeyData, GssEncRequest, NegotiateProtocolVersion, ParameterStatus, SecretKey, SslRequest,
    Startup,
};
use pgwire::messages::{DecodeContext, Message, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{Duration, timeout};

use super::Server;
use super::encode::Form;
use super::extended::{Portal, Statement};
use super::failure::{End, notice, warning};
use super::rows::{Batches, Rows, Step};
use super::session_command::{SERVER_VERSION, SessionCommand, TIME_ZONE};
use super::wire::{Incoming, Interrupts, Outgoing};
use crate::absence::AbsenceWarning;
use crate::left_out::left_out;

/// How long a client may take to say who it is.
const STARTUP_MAX: Duration = Duration::from_secs(30);

/// How often the queries of a statement are ended that was cancelled.
const ABORT_INTERVAL: Duration = Duration::from_millis(20);

/// Major version of the protocol, and the newest minor one.
const PROTOCOL_MAJOR: u16 = 3;
const PROTOCOL_MINOR: u16 = 0;

/// The setting by which inserts are answered when they have ended.
const WAITS_FOR_INSERTS: &str = "table.dml-sync";

/// A connection of a client that has said who it is.
pub struct Connection {
    pub session: Session,
    pub incoming: Incoming,
    pub outgoing: Outgoing,
    pub interrupts: Interrupts,
    pub is_in_transaction: bool,
    pub statements: HashMap<String, Arc<Statement>>,
    pub portals: HashMap<String, Portal>,
    /// An error of the extended protocol: what comes before the next Sync is not done.
    skips_until_sync: bool,
}

/// What a statement leads to.
pub enum Answer {
    Done(String),
    Rows(Box<Rows>),
}

/// Serves a client until it goes.
pub async fn serve(server: Arc<Server>, socket: TcpStream) {
    super::prepare(&socket);
    let (read, write) = socket.into_split();
    let (mut incoming, mut outgoing) = (Incoming::new(read), Outgoing::new(write));
    let started = timeout(STARTUP_MAX, start(&server, &mut incoming, &mut outgoing)).await;
    let result = match started {
        Ok(Ok(Some(startup))) => admit(server, incoming, outgoing, &startup).await,
        Ok(Ok(None)) | Err(_) => return,
        Ok(Err(end)) => Err((end, outgoing)),
    };
    // Whoever has gone is told nothing.
    if let Err((End::Failed(info), mut outgoing)) = result {
        outgoing.put(PgWireBackendMessage::ErrorResponse((*info).into()));
        if outgoing.flush().await.is_ok() {
            outgoing.close().await;
        }
    }
}

/// Reads what a client begins with. `None` where it only asks to cancel a statement of another connection.
async fn start(server: &Server, incoming: &mut Incoming, outgoing: &mut Outgoing) -> Result<Option<Startup>, End> {
    let context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
    loop {
        let mut packet: BytesMut = incoming.first_packet().await?;
        if SslRequest::is_ssl_request_packet(&packet) || GssEncRequest::is_gss_enc_request_packet(&packet) {
            outgoing.put(PgWireBackendMessage::SslResponse(SslResponse::Refuse));
            outgoing.flush().await?;
        } else if CancelRequest::is_cancel_request_packet(&packet) {
            if let Some(request) = CancelRequest::decode(&mut packet, &context).map_err(End::protocol)?
                && let SecretKey::I32(secret) = request.secret_key
            {
                server.cancel(request.pid, secret);
            }
            return Ok(None);
        } else {
            let startup = Startup::decode(&mut packet, &context).map_err(End::protocol)?;
            return startup.map(Some).ok_or_else(|| End::protocol("a start that is shorter than it says"));
        }
    }
}

/// Serves a client that has said who it is.
async fn admit(
    server: Arc<Server>,
    incoming: Incoming,
    mut outgoing: Outgoing,
    startup: &Startup,
) -> Result<(), (End, Outgoing)> {
    if startup.protocol_number_major != PROTOCOL_MAJOR {
        let (major, minor) = (startup.protocol_number_major, startup.protocol_number_minor);
        let end =
            End::protocol(format!("version {major}.{minor} is not supported; {PROTOCOL_MAJOR}.{PROTOCOL_MINOR} is"));
        return Err((end, outgoing));
    }
    let Ok(_place) = server.places.clone().try_acquire_owned() else {
        let message =
            format!("{} clients are connected, the most that --connections-max allows", server.connections_max);
        return Err((End::fatal("53300", message), outgoing));
    };
    let cancel = Arc::new(Notify::new());
    let (number, secret) = server.register(cancel.clone());
    greet(&mut outgoing, startup, number, secret);
    let mut connection = Connection {
        session: server.engine.session(),
        incoming,
        outgoing,
        interrupts: Interrupts { cancel, stopping: server.stopping.subscribe() },
        is_in_transaction: false,
        statements: HashMap::new(),
        portals: HashMap::new(),
        skips_until_sync: false,
    };
    let result = connection.converse().await;
    server.forget(number);
    result.map_err(|end| (end, connection.outgoing))
}

/// Tells a client that it is connected, and what it may rely on.
fn greet(outgoing: &mut Outgoing, startup: &Startup, number: i32, secret: i32) {
    let is_optional = |name: &String| name.starts_with("_pq_.");
    let unknown: Vec<String> = startup.parameters.keys().filter(|name| is_optional(name)).cloned().collect();
    if startup.protocol_number_minor > PROTOCOL_MINOR || !unknown.is_empty() {
        let newest = i32::from(PROTOCOL_MAJOR) << 16 | i32::from(PROTOCOL_MINOR);
        let message = NegotiateProtocolVersion::new(newest, unknown);
        outgoing.put(PgWireBackendMessage::NegotiateProtocolVersion(message));
    }
    outgoing.put(PgWireBackendMessage::Authentication(Authentication::Ok));
    let version = format!("{SERVER_VERSION} (Pelton {})", env!("CARGO_PKG_VERSION"));
    let given = |name: &str| startup.parameters.get(name).map_or("", String::as_str);
    let parameters = [
        ("server_version", version.as_str()),
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("application_name", given("application_name")),
        ("session_authorization", given("user")),
        ("is_superuser", "on"),
        ("default_transaction_read_only", "off"),
        ("in_hot_standby", "off"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("DateStyle", "ISO, YMD"),
        ("IntervalStyle", "postgres"),
        ("TimeZone", "UTC"),
    ];
    for (name, value) in parameters {
        let status = ParameterStatus::new(name.to_owned(), value.to_owned());
        outgoing.put(PgWireBackendMessage::ParameterStatus(status));
    }
    outgoing.put(PgWireBackendMessage::BackendKeyData(BackendKeyData::new(number, SecretKey::I32(secret))));
}

impl Connection {
    /// Does what the messages say, until the client goes or the connection fails.
    async fn converse(&mut self) -> Result<(), End> {
        let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
        (context.awaiting_frontend_ssl, context.awaiting_frontend_startup) = (false, false);
        self.ready();
        loop {
            self.outgoing.flush().await?;
            let mut stopping = self.interrupts.stopping.clone();
            let message = tokio::select! {
                message = self.incoming.message(&context) => message?,
                () = super::stopped(&mut stopping) => return Err(End::stopping()),
            };
            let is_simple = matches!(message, PgWireFrontendMessage::Query(_));
            if matches!(message, PgWireFrontendMessage::Terminate(_)) {
                return Ok(());
            }
            if let PgWireFrontendMessage::Sync(_) = message {
                self.skips_until_sync = false;
            } else if self.skips_until_sync && !is_simple {
                continue;
            }
            self.interrupts.rearm();
            match self.obey(message).await {
                Ok(()) => {}
                Err(End::Failed(info)) if info.severity != SEVERITY_FATAL => {
                    self.outgoing.put(PgWireBackendMessage::ErrorResponse((*info).into()));
                    self.skips_until_sync = !is_simple;
                    if is_simple {
                        self.ready();
                    }
                }
                Err(end) => return Err(end),
            }
        }
    }

    async fn obey(&mut self, message: PgWireFrontendMessage) -> Result<(), End> {
        match message {
            PgWireFrontendMessage::Query(query) => self.simple_query(&query.query).await,
            PgWireFrontendMessage::Parse(parse) => self.parse(parse).await,
            PgWireFrontendMessage::Bind(bind) => self.bind(bind),
            PgWireFrontendMessage::Describe(describe) => self.describe(&describe).await,
            PgWireFrontendMessage::Execute(execute) => self.execute_portal(&execute).await,
            PgWireFrontendMessage::Close(close) => self.close(&close),
            PgWireFrontendMessage::Flush(_) => Ok(()),
            // The rest of a COPY that has failed.
            PgWireFrontendMessage::CopyData(_)
            | PgWireFrontendMessage::CopyDone(_)
            | PgWireFrontendMessage::CopyFail(_) => Ok(()),
            PgWireFrontendMessage::Sync(_) => {
                if !self.is_in_transaction {
                    self.portals.clear();
                }
                self.ready();
                Ok(())
            }
            _ => Err(End::protocol("a message that nothing was asked for")),
        }
    }

    /// Says that the next statement may come.
    pub fn ready(&mut self) {
        let status = if self.is_in_transaction { TransactionStatus::Transaction } else { TransactionStatus::Idle };
        self.outgoing.put(PgWireBackendMessage::ReadyForQuery(ReadyForQuery::new(status)));
    }

    /// Executes one statement. `position` says which character of what the client has sent is at a place of the statement.
    pub async fn execute(
        &mut self,
        statement: &str,
        position: &(dyn Fn(Place) -> usize + Sync),
    ) -> Result<Answer, End> {
        if let Some(command) = SessionCommand::of(statement) {
            return self.obey_command(command);
        }
        let outcome = self.with_session(position, {
            let statement = statement.to_owned();
            move |session| {
                let statements = session.prepare(&statement)?;
                statements.first().map_or(Ok(Outcome::Done), |statement| session.execute(statement))
            }
        });
        match outcome.await? {
            Outcome::Done => Ok(self.done(statement)),
            Outcome::Noted(note) => {
                self.outgoing.put(notice(note));
                Ok(Answer::Done(command_name(statement)))
            }
            Outcome::Rows(rows) => Ok(Answer::Rows(Box::new(Rows::of_batch(rows, self.session.time_zone(), "SELECT")))),
            Outcome::Running(query) if query.schema().fields().is_empty() => self.insert(query).await,
            Outcome::Running(query) => Ok(Answer::Rows(Box::new(Rows::of_query(query, self.session.time_zone())))),
        }
    }

    /// Does something with the session that may take a while, on a thread of its own. Where the client does not wait for it, the queries end that it waits
    /// for, and what comes of it is dropped.
    pub async fn with_session<T: Send + 'static>(
        &mut self,
        position: &(dyn Fn(Place) -> usize + Sync),
        work: impl FnOnce(&Session) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, End> {
        let session = self.session.clone();
        let mut work = spawn_blocking(move || work(&session));
        let result = async { (&mut work).await.map_err(End::internal) };
        match self.interrupts.watch(&mut self.incoming, result).await {
            Ok(result) => result.map_err(|error| End::of(&error, position)),
            Err(end) => {
                while !work.is_finished() {
                    self.session.queries().iter().for_each(QueryControl::abort);
                    // It may be about to start another one.
                    let _ = timeout(ABORT_INTERVAL, &mut work).await;
                }
                Err(end)
            }
        }
    }

    /// An insert goes on as a job behind the answer, unless the session waits for its end.
    async fn insert(&mut self, query: Query) -> Result<Answer, End> {
        if self.session.setting(WAITS_FOR_INSERTS).as_deref() != Some("true") {
            let job = query.detach().map_err(|error| End::of(&error, |_| 1))?;
            let name = job.name();
            self.outgoing
                .put(notice(format!("job '{name}' runs; SHOW JOBS says how it is, STOP JOB '{name}' ends it")));
            return Ok(Answer::Done("INSERT 0 0".to_owned()));
        }
        let control = query.control();
        let end = async {
            let result = spawn_blocking(|| query.wait()).await.map_err(End::internal)?;
            result.map_err(|error| End::of(&error, |_| 1))
        };
        let summary = self.interrupts.watch(&mut self.incoming, end).await.inspect_err(|_| control.abort())?;
        left_out(&summary).into_iter().for_each(|text| self.outgoing.put(warning(text)));
        let rows: u64 = summary.sinks.iter().map(|sink| sink.rows).sum();
        Ok(Answer::Done(format!("INSERT 0 {rows}")))
    }

    fn obey_command(&mut self, command: SessionCommand) -> Result<Answer, End> {
        let done = |tag: &str| Ok(Answer::Done(tag.to_owned()));
        match command {
            SessionCommand::Begin => {
                if !std::mem::replace(&mut self.is_in_transaction, true) {
                    self.outgoing.put(notice("there are no transactions: each statement takes effect at once"));
                }
                done("BEGIN")
            }
            SessionCommand::EndTransaction(tag) => {
                self.is_in_transaction = false;
                self.portals.clear();
                done(tag)
            }
            SessionCommand::Set { name, value } => {
                if name == TIME_ZONE {
                    let result = self.session.set("table.local-time-zone", &value);
                    result.map_err(|error| End::of(&error, |_| 1))?;
                    self.tell_time_zone();
                }
                done("SET")
            }
            SessionCommand::Nothing(tag) => done(tag),
            SessionCommand::Value { column, value } => {
                let value = if column == TIME_ZONE { self.session.time_zone().to_string() } else { value };
                let rows = super::session_command::row(&column, &value);
                Ok(Answer::Rows(Box::new(Rows::of_batch(rows, self.session.time_zone(), "SELECT"))))
            }
            SessionCommand::Deallocate(name) => {
                match name {
                    Some(name) => drop(self.statements.remove(&name)),
                    None => self.statements.clear(),
                }
                done("DEALLOCATE")
            }
            SessionCommand::Catalog => Err(End::unsupported(
                "the system catalog of Postgres is not supported yet",
                "SHOW TABLES, SHOW VIEWS, SHOW FUNCTIONS and DESCRIBE name say what there is",
            )),
            SessionCommand::UnknownParameter(name) => {
                let end = End::failed("42704", format!("there is no parameter {name}"));
                Err(end.with_hint("settings of Pelton have their names in quotes: SET 'key' = 'value'; SET lists them"))
            }
        }
    }

    /// The answer to a statement that returns nothing. A setting may have changed what the client knows.
    fn done(&mut self, statement: &str) -> Answer {
        let name = command_name(statement);
        if name == "SET" || name == "RESET" {
            self.tell_time_zone();
        }
        Answer::Done(name)
    }

    fn tell_time_zone(&mut self) {
        let status = ParameterStatus::new("TimeZone".to_owned(), self.session.time_zone().to_string());
        self.outgoing.put(PgWireBackendMessage::ParameterStatus(status));
    }

    /// Sends rows, as many as are wanted. Says whether these were all.
    pub async fn send_rows(&mut self, rows: &mut Rows, forms: &[Form], mut wanted: u64) -> Result<bool, End> {
        loop {
            match rows.write(forms, &mut wanted, &mut self.outgoing.buffer) {
                Step::Full => return Ok(false),
                Step::Send => self.flush_watched().await?,
                Step::Read => {
                    let has_more = match rows.poll_next().await? {
                        std::task::Poll::Ready(has_more) => has_more,
                        std::task::Poll::Pending => {
                            self.flush_watched().await?;
                            self.interrupts.watch(&mut self.incoming, rows.next()).await?
                        }
                    };
                    if !has_more {
                        self.tell_left_out(rows.rest()).await?;
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// Sends what has been written, as long as the client takes it.
    pub async fn flush_watched(&mut self) -> Result<(), End> {
        self.interrupts.watch(&mut self.incoming, self.outgoing.flush()).await
    }

    /// Tells what a query has left out, behind its rows.
    pub async fn tell_left_out(&mut self, rows: &mut Batches) -> Result<(), End> {
        let Some(summary) = rows.end().await? else { return Ok(()) };
        let absent = AbsenceWarning::default().at_the_end(&summary);
        let absent = absent.iter().map(|text| text.trim_start_matches("warning: ").to_owned());
        absent.chain(left_out(&summary)).for_each(|text| self.outgoing.put(warning(text)));
        Ok(())
    }

    /// Ends the answer to a statement.
    pub fn complete(&mut self, tag: String) {
        self.outgoing.put(PgWireBackendMessage::CommandComplete(CommandComplete::new(tag)));
    }
}

/// Words at the beginning of a statement that name it.
fn command_name(statement: &str) -> String {
    const OBJECTS: [&str; 4] = ["TABLE", "VIEW", "FUNCTION", "JOB"];
    let mut words = statement.split_whitespace().map(str::to_ascii_uppercase);
    let first = words.next().unwrap_or_default();
    let object = words.find(|word| OBJECTS.contains(&word.as_str())).filter(|_| first != "SET" && first != "RESET");
    object.map_or(first.clone(), |object| format!("{first} {object}"))
}
