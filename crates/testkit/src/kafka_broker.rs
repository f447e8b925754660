//! A Kafka broker on loopback, for tests: one for all tests of a process.
//!
//! Its libraries are fetched from Maven Central once and kept in `~/.cache/pelton-kafka`, or in the folder that `PELTON_KAFKA` names. It needs `java` and, to fetch, `mvn`.
//! Its data are in a folder of its own, and it ends with the process that started it, however that ends.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

const VERSION: &str = "4.3.1";

/// The folder of the libraries.
const HOME: &str = "PELTON_KAFKA";

/// How long the broker may take to start, and each request.
const START_MAX: Duration = Duration::from_secs(120);
const REQUEST_MAX: Duration = Duration::from_secs(30);

const POM: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>pelton</groupId><artifactId>kafka-broker</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>KAFKA_VERSION</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.3</version></dependency>
</dependencies></project>
"#;

const LOGGING: &str = "rootLogger.level=WARN
rootLogger.appenderRef.c.ref=C
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %c{1} %m%n
";

const PROPERTIES: &str = "process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
log.segment.bytes=67108864
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
num.network.threads=2
num.io.threads=2
";

/// Runs a command that ends when nobody has the other end of its input any more.
const WATCHED: &str = r#""$@" </dev/null & child=$!; trap 'kill -KILL $child 2>/dev/null' EXIT; cat >/dev/null"#;

/// A running broker.
pub struct Broker {
    /// `host:port`
    pub servers: String,
    folder: PathBuf,
    /// The shell that ends the broker when its input is closed.
    process: Mutex<Option<Child>>,
    ports: [u16; 2],
    libraries: PathBuf,
}

/// The broker of this process; `None`, with a line that says why, where there can be none.
pub fn broker() -> Option<&'static Broker> {
    static BROKER: OnceLock<Option<Broker>> = OnceLock::new();
    let start = || match Broker::start() {
        Ok(broker) => Some(broker),
        Err(problem) => {
            eprintln!("skipped, as there is no Kafka broker: {problem}");
            None
        }
    };
    BROKER.get_or_init(start).as_ref()
}

impl Broker {
    /// Starts a broker without any topics.
    ///
    /// # Errors
    /// Where there is no Java, or the libraries can be had neither here nor from Maven Central.
    ///
    /// # Panics
    /// Where a broker that could be started does not work.
    pub fn start() -> Result<Broker, String> {
        let java = Command::new("java").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        java.map_err(|error| format!("java: {error}"))?;
        let libraries = libraries()?;
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("pelton-kafka-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let ports = [free_port(), free_port()];
        let data = folder.join("data");
        let [listener, controller] = ports;
        let properties = format!(
            "{PROPERTIES}log.dirs={}\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{listener},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{listener}\n",
            data.display()
        );
        let written = fs::write(folder.join("server.properties"), properties);
        written.and_then(|()| fs::write(folder.join("log4j2.properties"), LOGGING)).expect("the folder is there");
        let servers = format!("127.0.0.1:{listener}");
        let broker = Broker { servers, folder, process: Mutex::new(None), ports, libraries };
        let format = ["kafka.tools.StorageTool", "format", "-t", "Zm9vYmFyYmF6cXV4MTIzNA", "-c"];
        let formatted = broker.java(&[], &format).output().expect("java runs");
        assert!(formatted.status.success(), "{}", String::from_utf8_lossy(&formatted.stderr));
        broker.resume();
        Ok(broker)
    }

    /// A command that runs a class, whose last argument is the broker's configuration.
    fn java(&self, around: &[&str], arguments: &[&str]) -> Command {
        let mut command = match around {
            [] => Command::new("java"),
            [shell, rest @ ..] => {
                let mut command = Command::new(shell);
                command.args(rest).arg("java");
                command
            }
        };
        let logging = self.folder.join("log4j2.properties");
        command
            .arg(format!("-Dlog4j2.configurationFile={}", logging.display()))
            .args(["-Xmx320m", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"])
            .arg(self.libraries.join("*"))
            .args(arguments)
            .arg(self.folder.join("server.properties"))
            .current_dir(&self.folder);
        command
    }

    /// Starts it again behind [`Broker::kill`], with the data that it had.
    ///
    /// # Panics
    /// Where it does not start.
    pub fn resume(&self) {
        let log = fs::File::create(self.folder.join("kafka.log")).expect("the folder is there");
        let mut command = self.java(&["sh", "-c", WATCHED, "kafka"], &["kafka.Kafka"]);
        command.stdin(Stdio::piped()).stdout(log.try_clone().expect("a file has clones")).stderr(log);
        let child = command.spawn().expect("sh runs");
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        let began = Instant::now();
        while self.admin().inner().fetch_cluster_id(Duration::from_millis(500)).is_none()
            || TcpStream::connect(("127.0.0.1", self.ports[0])).is_err()
        {
            let log = || fs::read_to_string(self.folder.join("kafka.log")).unwrap_or_default();
            assert!(began.elapsed() < START_MAX, "the broker does not start:\n{}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends it at once, as a machine does that goes down.
    pub fn kill(&self) {
        let child = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut child) = child {
            drop(child.stdin.take());
            // It has gone, whatever is said of that.
            let _ = child.wait();
        }
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.servers);
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().expect("the configuration is right")
    }

    /// Makes a topic of so many partitions.
    ///
    /// # Panics
    /// Where the broker does not.
    pub fn create_topic(&self, name: &str, partitions: i32) {
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        let options = AdminOptions::new().operation_timeout(Some(REQUEST_MAX));
        let created = futures_executor::block_on(self.admin().create_topics([&topic], &options));
        created.expect("the broker answers").into_iter().for_each(|topic| drop(topic.expect("the topic is new")));
    }

    /// Has a topic have so many partitions.
    ///
    /// # Panics
    /// Where the broker does not.
    pub fn add_partitions(&self, name: &str, partitions: usize) {
        let wanted = NewPartitions::new(name, partitions);
        let options = AdminOptions::new().operation_timeout(Some(REQUEST_MAX));
        let created = futures_executor::block_on(self.admin().create_partitions([&wanted], &options));
        created.expect("the broker answers").into_iter().for_each(|topic| drop(topic.expect("there were fewer")));
    }

    /// Sends messages, and waits until they are there.
    ///
    /// # Panics
    /// Where the broker does not take them.
    pub fn send<'a>(&self, topic: &str, messages: impl IntoIterator<Item = Sent<'a>>) {
        let mut config = self.config();
        config.set("queue.buffering.max.messages", "2000000");
        let producer: BaseProducer = config.create().expect("the configuration is right");
        for Sent { partition, key, value, timestamp, headers } in messages {
            let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic).partition(partition);
            record.key = key.map(str::as_bytes);
            record.payload = value;
            record.timestamp = timestamp;
            if !headers.is_empty() {
                let add = |owned: OwnedHeaders, &(key, value): &(&str, &str)| {
                    owned.insert(Header { key, value: Some(value) })
                };
                record.headers = Some(headers.iter().fold(OwnedHeaders::new(), add));
            }
            producer.send(record).map_err(|(error, _)| error).expect("the queue has room");
            producer.poll(Duration::ZERO);
        }
        producer.flush(REQUEST_MAX).expect("the broker takes messages");
    }

    /// What a group has committed of each partition of a topic; -1 of those of which it has nothing.
    ///
    /// # Panics
    /// Where the broker does not say.
    pub fn committed(&self, group: &str, topic: &str) -> Vec<i64> {
        let consumer: BaseConsumer = self.config().set("group.id", group).create().expect("the configuration is right");
        let mut list = TopicPartitionList::new();
        for partition in 0..self.partitions(&consumer, topic) {
            list.add_partition(topic, partition);
        }
        let began = Instant::now();
        // The first group of a broker has no coordinator at once.
        let committed = loop {
            match consumer.committed_offsets(list.clone(), REQUEST_MAX) {
                Ok(committed) => break committed,
                Err(error) => assert!(began.elapsed() < REQUEST_MAX, "the broker answers: {error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let offset = |offset| if let Offset::Offset(offset) = offset { offset } else { -1 };
        committed.elements().iter().map(|element| offset(element.offset())).collect()
    }

    /// Has brokers forget a group and its offsets.
    ///
    /// # Panics
    /// Where the broker does not.
    pub fn delete_group(&self, group: &str) {
        let options = AdminOptions::new().operation_timeout(Some(REQUEST_MAX));
        let deleted = futures_executor::block_on(self.admin().delete_groups(&[group], &options));
        deleted.expect("the broker answers").into_iter().for_each(|group| drop(group.expect("the group is there")));
    }

    fn partitions(&self, consumer: &BaseConsumer, topic: &str) -> i32 {
        let metadata = consumer.fetch_metadata(Some(topic), REQUEST_MAX).expect("the broker answers");
        metadata.topics()[0].partitions().len() as i32
    }

    /// The messages of a topic so far, by partition and offset.
    ///
    /// # Panics
    /// Where the broker does not give them.
    pub fn read(&self, topic: &str) -> Vec<OwnedMessage> {
        let mut config = self.config();
        config.set("group.id", "test").set("enable.auto.commit", "false").set("enable.partition.eof", "true");
        let consumer: BaseConsumer = config.create().expect("the configuration is right");
        let partitions = self.partitions(&consumer, topic);
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(topic, partition, Offset::Beginning).expect("the partition is new");
        }
        consumer.assign(&list).expect("the partitions exist");
        let (mut messages, mut ended) = (Vec::new(), 0);
        while ended < partitions {
            match consumer.poll(REQUEST_MAX).expect("the broker answers") {
                Ok(message) => messages.push(message.detach()),
                Err(rdkafka::error::KafkaError::PartitionEOF(_)) => ended += 1,
                Err(error) => panic!("{topic}: {error}"),
            }
        }
        messages.sort_by_key(|message| (message.partition(), message.offset()));
        messages
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
        // What is left is in a folder for what is left.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A message to send.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    /// Where to.
    pub partition: i32,
    /// Its key, if it has one.
    pub key: Option<&'a str>,
    /// Its value, if it has one.
    pub value: Option<&'a [u8]>,
    /// In milliseconds since 1970; now, without one.
    pub timestamp: Option<i64>,
    /// Its headers.
    pub headers: &'a [(&'a str, &'a str)],
}

impl<'a> Sent<'a> {
    /// A message to a partition that has a value only.
    pub fn new(partition: i32, value: &'a str) -> Sent<'a> {
        Sent { partition, key: None, value: Some(value.as_bytes()), timestamp: None, headers: &[] }
    }
}

/// A message as text: `partition|key|value`, and its headers behind it.
pub fn shown(message: &OwnedMessage) -> String {
    let text = |bytes: Option<&[u8]>| bytes.map_or("-".into(), |bytes| String::from_utf8_lossy(bytes).into_owned());
    let headers = message.headers().into_iter().flat_map(Headers::iter);
    let headers: String = headers.map(|header| format!("|{}={}", header.key, text(header.value))).collect();
    format!("{}|{}|{}{headers}", message.partition(), text(message.key()), text(message.payload()))
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    listener.local_addr().expect("it is bound").port()
}

/// The folder of the broker's libraries, which are fetched if need be.
fn libraries() -> Result<PathBuf, String> {
    let home = match std::env::var_os(HOME) {
        Some(home) => PathBuf::from(home),
        None => {
            let user = std::env::var_os("HOME").ok_or_else(|| format!("neither {HOME} nor HOME is set"))?;
            Path::new(&user).join(".cache/pelton-kafka")
        }
    };
    let libraries = home.join(format!("lib-{VERSION}"));
    if libraries.is_dir() {
        return Ok(libraries);
    }
    let failed = |error: io::Error| format!("{}: {error}", home.display());
    // Others may do the same meanwhile: each has a folder of its own until all is there.
    let fetched = home.join(format!("fetching-{}", std::process::id()));
    fs::create_dir_all(&fetched).map_err(failed)?;
    let pom = fetched.join("pom.xml");
    fs::write(&pom, POM.replace("KAFKA_VERSION", VERSION)).map_err(failed)?;
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib", "-f"]).arg(&pom);
    let done = maven.current_dir(&fetched).output().map_err(|error| format!("mvn: {error}"));
    let moved = done.and_then(|done| match done.status.success() {
        true => fs::rename(fetched.join("lib"), &libraries)
            .or_else(|error| if libraries.is_dir() { Ok(()) } else { Err(failed(error)) }),
        false => Err(format!("mvn: {}", String::from_utf8_lossy(&done.stdout).lines().next().unwrap_or_default())),
    });
    let _ = fs::remove_dir_all(&fetched);
    moved.map(|()| libraries)
}
