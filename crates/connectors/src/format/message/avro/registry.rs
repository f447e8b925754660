//! Confluent's schema registry: schemas by number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::http::{Answer, Server};
use crate::ConnectorError;
use crate::options::Options;

/// Attempts to get an answer, and the pause behind the first, which doubles from one to the next.
const ATTEMPTS_MAX: u32 = 5;
const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// A registry. Clones share what it has answered.
#[derive(Debug, Clone)]
pub(super) struct Registry {
    server: Server,
    known: Arc<Mutex<HashMap<u32, Option<String>>>>,
}

impl Registry {
    pub(super) fn of(options: &Options) -> Result<Registry, ConnectorError> {
        const URL: &str = "avro-confluent.url";
        let url = options.required(URL, "http://localhost:8081")?;
        let user = options.text("avro-confluent.basic-auth.user-info");
        if let Some(source) = options.text("avro-confluent.basic-auth.credentials-source")
            && source != "USER_INFO"
        {
            let problem = format!("must be 'USER_INFO', not '{source}'");
            return Err(ConnectorError::option("avro-confluent.basic-auth.credentials-source", problem));
        }
        let server = Server::of(url, user).map_err(|problem| ConnectorError::option(URL, problem))?;
        Ok(Registry { server, known: Arc::default() })
    }

    /// The schema of a number; `None` where there is none. It is asked for once, by the worker that meets the number first: schemas are few.
    ///
    /// # Errors
    /// Where the registry does not answer, after some attempts.
    pub(super) fn schema(&self, number: u32) -> Result<Option<String>, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = known.get(&number) {
            return Ok(schema.clone());
        }
        let answer = self.ask(|server| server.get(&format!("/schemas/ids/{number}")))?;
        let schema = match answer.status {
            404 => None,
            _ => Some(self.read(&answer, "schema", |value| value.as_str().map(str::to_owned))?),
        };
        known.insert(number, schema.clone());
        Ok(schema)
    }

    /// The number of a schema, which is added if need be.
    ///
    /// # Errors
    /// Where the registry does not answer, or does not take the schema.
    pub(super) fn register(&self, subject: &str, schema: &str) -> Result<u32, String> {
        let body = json!({ "schema": schema }).to_string();
        let answer = self.ask(|server| server.post(&format!("/subjects/{subject}/versions"), &body))?;
        self.read(&answer, "id", |value| value.as_u64().and_then(|number| u32::try_from(number).ok()))
    }

    fn ask(&self, request: impl Fn(&Server) -> Result<Answer, String>) -> Result<Answer, String> {
        let mut backoff = BACKOFF_MIN;
        for attempt in 1.. {
            let problem = match request(&self.server) {
                Ok(answer) if answer.status < 500 => return Ok(answer),
                Ok(answer) => answer.problem(),
                Err(problem) => problem,
            };
            if attempt == ATTEMPTS_MAX {
                return Err(format!("the schema registry {}: {problem}; it was tried {attempt} times", self.server));
            }
            std::thread::sleep(backoff);
            backoff *= 2;
        }
        unreachable!("the last attempt returns")
    }

    fn read<T>(&self, answer: &Answer, name: &str, read: impl Fn(&Value) -> Option<T>) -> Result<T, String> {
        let value = serde_json::from_str::<Value>(&answer.body).ok().filter(|_| answer.status < 300);
        let found = value.as_ref().and_then(|value| read(&value[name]));
        found.ok_or_else(|| format!("the schema registry {}: {}", self.server, answer.problem()))
    }
}
