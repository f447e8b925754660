//! A connection to a server of the Postgres protocol.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use pgwire::error::ErrorInfo;
use pgwire::messages::cancel::CancelRequest;
use pgwire::messages::simplequery::Query;
use pgwire::messages::startup::{Authentication, SecretKey, Startup};
use pgwire::messages::{DecodeContext, Message, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};

use crate::failure::Failure;

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// Bytes of a message's type and length.
const HEADER_BYTES: usize = 5;

/// A connection whose server is ready for statements.
pub struct Client {
    socket: TcpStream,
    incoming: BytesMut,
    context: DecodeContext,
    canceller: Canceller,
}

/// Ends the statement that a connection executes.
#[derive(Clone)]
pub struct Canceller {
    address: SocketAddr,
    number: i32,
    secret: SecretKey,
}

impl Client {
    /// Connects to `HOST:PORT`.
    pub fn connect(server: &str) -> Result<Client, Failure> {
        let failed = |problem: &dyn std::fmt::Display| -> Failure { format!("--connect {server}: {problem}").into() };
        let addresses = server.to_socket_addrs().map_err(|error| failed(&error))?;
        let mut result = Err(failed(&"the host has no address"));
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT_MAX) {
                Ok(socket) => return Client::start(socket, address).map_err(|error| failed(&error)),
                Err(error) => result = Err(failed(&error)),
            }
        }
        result
    }

    fn start(socket: TcpStream, address: SocketAddr) -> Result<Client, Failure> {
        socket.set_nodelay(true)?;
        let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
        (context.awaiting_frontend_ssl, context.awaiting_frontend_startup) = (false, false);
        let canceller = Canceller { address, number: 0, secret: SecretKey::I32(0) };
        let mut client = Client { socket, incoming: BytesMut::new(), context, canceller };
        let mut startup = Startup::new();
        for (name, value) in [("user", "pelton"), ("application_name", "pelton sql")] {
            startup.parameters.insert(name.to_owned(), value.to_owned());
        }
        client.put(&PgWireFrontendMessage::Startup(startup))?;
        loop {
            match client.receive()? {
                PgWireBackendMessage::Authentication(Authentication::Ok) => {}
                PgWireBackendMessage::Authentication(_) => return Err("the server asks for a password".into()),
                PgWireBackendMessage::BackendKeyData(key) => {
                    client.canceller = Canceller { address, number: key.pid, secret: key.secret_key };
                }
                PgWireBackendMessage::ErrorResponse(error) => {
                    return Err(ErrorInfo::from(error).message.into());
                }
                PgWireBackendMessage::ReadyForQuery(_) => return Ok(client),
                _ => {}
            }
        }
    }

    pub fn canceller(&self) -> &Canceller {
        &self.canceller
    }

    /// Sends statements. [`Client::receive`] gives the answers, up to `ReadyForQuery`.
    pub fn send(&mut self, statements: &str) -> Result<(), Failure> {
        self.put(&PgWireFrontendMessage::Query(Query::new(statements.to_owned())))
    }

    fn put(&mut self, message: &PgWireFrontendMessage) -> Result<(), Failure> {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes)?;
        Ok(self.socket.write_all(&bytes)?)
    }

    /// Bytes of the message that comes first, where all of it is there.
    fn message_bytes(&self) -> Option<usize> {
        let header = self.incoming.get(1..HEADER_BYTES)?;
        let bytes = 1 + usize::try_from((&header[..]).get_i32()).ok()?;
        (self.incoming.len() >= bytes).then_some(bytes)
    }

    /// Whether a message is there.
    pub fn has_message(&self) -> bool {
        self.message_bytes().is_some()
    }

    /// Waits for a message.
    pub fn receive(&mut self) -> Result<PgWireBackendMessage, Failure> {
        loop {
            if let Some(bytes) = self.message_bytes() {
                let mut packet = self.incoming.split_to(bytes);
                let message = PgWireBackendMessage::decode(&mut packet, &self.context)?;
                return message.ok_or_else(|| "the server sends a message that is shorter than it says".into());
            }
            let length = self.incoming.len();
            self.incoming.resize(length + READ_BYTES, 0);
            let read = self.socket.read(&mut self.incoming[length..]);
            self.incoming.truncate(length + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                return Err("the server has closed the connection".into());
            }
        }
    }
}

impl Canceller {
    /// Asks the server to end the statement. It answers on the connection of the statement.
    pub fn cancel(&self) {
        let mut bytes = BytesMut::new();
        let request = CancelRequest::new(self.number, self.secret.clone());
        // Where it cannot be asked the statement goes on, and a second Ctrl-C ends the program.
        if request.encode(&mut bytes).is_ok()
            && let Ok(mut socket) = TcpStream::connect_timeout(&self.address, CONNECT_MAX)
        {
            let _ = socket.write_all(&bytes);
        }
    }
}
