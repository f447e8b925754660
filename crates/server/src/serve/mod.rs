//! `pelton serve`: clients of Postgres execute statements on one engine.
//!
//! A connection reads messages (`wire`), and executes statements one at a time: as text (`simple`), or prepared with parameters (`extended`, `parameters`).
//! What drivers ask of Postgres alone is answered by `session_command`. Rows are sent as they come (`rows`, `encode`, `types`): a client that reads slowly
//! slows its own query. COPY sends and receives them as Arrow data (`copy`). An INSERT goes on as a job when its client has gone (`jobs`).

mod connection;
mod copy;
mod encode;
mod extended;
mod failure;
mod jobs;
mod parameters;
mod rows;
mod session_command;
mod simple;
mod types;
mod wire;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pelton::{Engine, Outcome, Session};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;

use crate::arguments::ServeArguments;
use crate::failure::{EXIT_INTERRUPTED, Failure};
use crate::output::say;
use crate::script::Script;
use jobs::Jobs;
use wire::{Stopping, stopped};

/// Threads that serve clients: they read messages and write rows; workers compute these.
const NETWORK_THREADS: usize = 2;

/// What clients get that are connected when the server stops: time to read that it does.
const FAREWELL_MAX: Duration = Duration::from_secs(2);

/// How long accepting pauses where the system has no more sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What all connections share.
pub struct Server {
    pub engine: Engine,
    connections: Mutex<HashMap<i32, Registered>>,
    places: Arc<Semaphore>,
    connections_max: u32,
    stopping: watch::Sender<Stopping>,
}

/// How a connection is found that is to be cancelled.
struct Registered {
    secret: i32,
    cancel: Arc<Notify>,
}

/// `pelton serve`
pub fn serve(arguments: &ServeArguments) -> Result<(), Failure> {
    check_address(arguments.postgres)?;
    let session = match &arguments.data {
        Some(directory) => Engine::open(directory)?.session(),
        None => Session::new(),
    };
    if let Some(workers) = arguments.workers {
        session.set("pelton.workers", &workers.to_string())?;
    }
    for (job, error) in session.engine().restart_jobs()? {
        say!("error: job {job} was not started again: {error}");
    }
    if let Some(file) = &arguments.file {
        execute_first(&session, &Script::of_file(file)?)?;
    }
    let server = Arc::new(Server::new(session.engine().clone(), arguments.connections_max));
    listen_for_signals(server.clone())?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(NETWORK_THREADS).thread_name("pelton-network").enable_all();
    // Each connection may be planning, or waiting for an insert; and some queries may be ending.
    let runtime = runtime.max_blocking_threads(2 * arguments.connections_max as usize + NETWORK_THREADS).build()?;
    runtime.block_on(server.run(arguments.postgres))?;
    // What still waits for a client or a file need not end.
    runtime.shutdown_timeout(FAREWELL_MAX);
    Ok(())
}

/// Executes statements before there are clients. Inserts become jobs.
fn execute_first(session: &Session, script: &Script) -> Result<(), Failure> {
    for statement in script.statements(session)? {
        match session.execute(&statement).map_err(|error| script.failure(&error, &statement))? {
            Outcome::Noted(note) => say!("{note}"),
            Outcome::Running(query) => {
                query.detach().map_err(|error| script.failure(&error, &statement))?;
            }
            Outcome::Done | Outcome::Rows(_) => {}
        }
    }
    Ok(())
}

/// Clients are not asked for a password, and nothing is encrypted: others than those of this machine must not get here.
fn check_address(address: SocketAddr) -> Result<(), Failure> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "--postgres {address}: clients need no password, so that only those of this machine may connect: use 127.0.0.1:{port} or [::1]:{port}, \
         and from elsewhere a tunnel such as ssh -L {port}:127.0.0.1:{port}",
        port = address.port()
    )
    .into())
}

/// The first signal drains what runs, the second ends it at once, and the third ends the process.
fn listen_for_signals(server: Arc<Server>) -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(move || {
        let before = *server.stopping.borrow();
        let next = match before {
            Stopping::No => Stopping::Draining,
            Stopping::Draining => Stopping::AtOnce,
            Stopping::AtOnce => process::exit(EXIT_INTERRUPTED.into()),
        };
        server.stopping.send_replace(next);
    })
}

impl Server {
    fn new(engine: Engine, connections_max: u32) -> Server {
        Server {
            engine,
            connections: Mutex::default(),
            places: Arc::new(Semaphore::new(connections_max as usize)),
            connections_max,
            stopping: watch::channel(Stopping::No).0,
        }
    }

    /// Accepts clients until the server is stopped, and waits for what runs.
    async fn run(self: Arc<Self>, address: SocketAddr) -> Result<(), Failure> {
        let listener = TcpListener::bind(address).await.map_err(|error| format!("--postgres {address}: {error}"))?;
        let address = listener.local_addr()?;
        say!("listening on {address}; connect with psql -h {} -p {}", address.ip(), address.port());
        let jobs = Arc::new(Jobs::new(self.engine.clone()));
        let reporting = tokio::spawn({
            let jobs = jobs.clone();
            async move { jobs.report().await }
        });
        let mut connections = JoinSet::new();
        let mut stopping = self.stopping.subscribe();
        loop {
            tokio::select! {
                () = stopped(&mut stopping) => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = listener.accept() => match accepted {
                    Ok((socket, _)) => drop(connections.spawn(connection::serve(self.clone(), socket))),
                    // Out of sockets: those that are open go on.
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                }
            }
        }
        drop(listener);
        let farewell = async { while connections.join_next().await.is_some() {} };
        // A client that does not read keeps nobody waiting.
        let _ = tokio::time::timeout(FAREWELL_MAX, farewell).await;
        reporting.abort();
        jobs.end(stopping).await;
        Ok(())
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<i32, Registered>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a connection, and says the number and the secret by which its client can cancel its statements.
    fn register(&self, cancel: Arc<Notify>) -> (i32, i32) {
        let secret = RandomState::new().build_hasher().finish() as i32;
        let mut connections = self.connections();
        let mut number = 1;
        while connections.contains_key(&number) {
            number += 1;
        }
        connections.insert(number, Registered { secret, cancel });
        (number, secret)
    }

    fn forget(&self, number: i32) {
        self.connections().remove(&number);
    }

    /// Cancels the statement of a connection, if the secret is right. Whoever asks is not told.
    fn cancel(&self, number: i32, secret: i32) {
        let connections = self.connections();
        if let Some(registered) = connections.get(&number).filter(|registered| registered.secret == secret) {
            registered.cancel.notify_one();
        }
    }
}

/// Disables Nagle's algorithm: a row is sent when it is there.
fn prepare(socket: &TcpStream) {
    // Slower where it fails, and nothing else.
    let _ = socket.set_nodelay(true);
}
