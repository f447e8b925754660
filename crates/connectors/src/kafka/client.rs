//! The clients of a cluster: properties, and what happens to them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;
use tokio::sync::Notify;

use crate::ConnectorError;
use crate::options::Options;

const PREFIX: &str = "properties.";

/// The group of a table that names none: offsets are not committed in it.
const GROUP_DEFAULT: &str = "pelton";

/// Properties that concern reading only.
const OF_READERS: [&str; 4] = ["group.id", "auto.offset.reset", "isolation.level", "enable.auto.commit"];

/// What a table says about the cluster's clients.
#[derive(Debug, Clone)]
pub(super) struct Properties(BTreeMap<String, String>);

impl Properties {
    pub(super) fn of(options: &Options) -> Result<Properties, ConnectorError> {
        options.required("properties.bootstrap.servers", "localhost:9092")?;
        let mut properties = BTreeMap::new();
        for name in options.names().filter_map(|name| name.strip_prefix(PREFIX)) {
            let value = options.text(&format!("{PREFIX}{name}")).expect("it is among the names");
            properties.insert(name.to_owned(), value.to_owned());
        }
        let mut properties = Properties(properties);
        properties.translate_login()?;
        Ok(properties)
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Takes the user and the password out of what Java's client calls `sasl.jaas.config`.
    fn translate_login(&mut self) -> Result<(), ConnectorError> {
        const JAAS: &str = "sasl.jaas.config";
        let Some(login) = self.0.remove(JAAS) else { return Ok(()) };
        let quoted = |name: &str| {
            let rest = login[login.find(&format!("{name}="))? + name.len() + 1..].strip_prefix('"')?;
            Some(rest[..rest.find('"')?].to_owned())
        };
        for (own, name) in [("username", "sasl.username"), ("password", "sasl.password")] {
            let Some(value) = quoted(own) else {
                let problem =
                    format!("has no {own}=\"…\"; 'properties.sasl.username' and 'properties.sasl.password' do as well");
                return Err(ConnectorError::option(format!("{PREFIX}{JAAS}"), problem));
            };
            self.0.entry(name.to_owned()).or_insert(value);
        }
        Ok(())
    }

    /// A configuration of these properties, with `defaults` for those that are not given.
    pub(super) fn config(&self, defaults: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        // Applications see errors; what librdkafka logs beside them is of no use to them.
        config.set_log_level(RDKafkaLogLevel::Critical);
        for &(name, value) in defaults {
            config.set(name, value);
        }
        for (name, value) in &self.0 {
            config.set(name, value);
        }
        config
    }

    /// The name of the first property that others have another value of, for writing.
    pub(super) fn first_difference(&self, other: &Properties) -> Option<String> {
        let names = self.0.keys().chain(other.0.keys()).filter(|name| !OF_READERS.contains(&name.as_str()));
        let mut differing = names.filter(|name| self.get(name) != other.get(name));
        differing.next().map(|name| format!("{PREFIX}{name}"))
    }

    pub(super) fn group(&self) -> &str {
        self.get("group.id").unwrap_or(GROUP_DEFAULT)
    }
}

/// The table's error for a client that cannot be made.
pub(super) fn refused(error: KafkaError) -> ConnectorError {
    match error {
        KafkaError::ClientConfig(_, problem, name, value) => {
            let tls = problem.contains("OpenSSL") || problem.contains("SSL") || problem.contains("SCRAM");
            let hint = if tls { "; this program was built without the feature 'kafka-tls'" } else { "" };
            let value =
                if value.is_empty() || name.contains("password") { String::new() } else { format!(" ('{value}')") };
            ConnectorError::option(
                format!("{PREFIX}{name}"),
                format!("is refused by librdkafka{value}: {problem}{hint}"),
            )
        }
        KafkaError::ClientCreation(problem) => {
            let tls = ["OpenSSL", "SSL", "SCRAM", "SASL"].iter().any(|word| problem.contains(word));
            let hint =
                if tls { "; TLS and SCRAM need a program that was built with the feature 'kafka-tls'" } else { "" };
            ConnectorError::option("properties.bootstrap.servers", format!("give no client: {problem}{hint}"))
        }
        other => ConnectorError::option("properties.bootstrap.servers", format!("give no client: {other}")),
    }
}

/// What happens to a client.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Something has.
    pub(super) happened: Notify,
    /// The last error of a broker.
    error: Mutex<Option<String>>,
}

impl Events {
    /// The last error since it was asked for.
    pub(super) fn take_error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, reason: &str) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.to_owned());
        self.happened.notify_one();
    }
}

/// What librdkafka calls back.
#[derive(Debug, Clone, Default)]
pub(super) struct Context(pub(super) std::sync::Arc<Events>);

impl ClientContext for Context {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {}

    fn error(&self, _error: KafkaError, reason: &str) {
        self.0.note(reason);
    }
}

impl ConsumerContext for Context {}

/// An error without the name of its kind in Rust.
pub(super) fn problem(error: &KafkaError) -> String {
    match error.rdkafka_error_code() {
        Some(code) => code.to_string(),
        None => error.to_string(),
    }
}
