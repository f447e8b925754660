//! Connections, made again and again with growing pauses.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::Endpoint;

/// Between the first two attempts. It doubles from one to the next.
const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// How long an attempt may take.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);

impl Endpoint {
    /// Connects to the server, if need be after some attempts.
    ///
    /// # Errors
    /// What the last attempt came to.
    pub(super) async fn connect(&self) -> Result<TcpStream, String> {
        let mut backoff = BACKOFF_MIN;
        let mut attempts = 0;
        loop {
            let attempt = timeout(ATTEMPT_MAX, TcpStream::connect((self.hostname.as_str(), self.port))).await;
            let error = match attempt {
                Ok(Ok(stream)) => {
                    prepare(&stream);
                    self.condition.clear();
                    return Ok(stream);
                }
                Ok(Err(error)) => error,
                Err(_) => io::ErrorKind::TimedOut.into(),
            };
            attempts += 1;
            if attempts > self.retries_max {
                let times = if attempts == 1 { "once".to_owned() } else { format!("{attempts} times") };
                return Err(format!("{error}; it was tried {times}, as 'connect.retries-max' says"));
            }
            self.condition.set(&format!("{}: {error}", self.place()));
            sleep(backoff.min(self.backoff_max)).await;
            backoff *= 2;
        }
    }
}

/// Passes between a connection that has ended and the next.
pub(super) async fn pause() {
    sleep(BACKOFF_MIN).await;
}

/// Disables Nagle's algorithm: a row is sent when it is there.
pub(super) fn prepare(stream: &TcpStream) {
    // Slower where it fails, and nothing else.
    let _ = stream.set_nodelay(true);
}
