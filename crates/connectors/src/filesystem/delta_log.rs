//! The log of a Delta table: which of the files in its directory have its rows.
//!
//! A commit is a file of JSON lines in `_delta_log`, whose name is the next number: whoever makes it first has it (Delta transaction log protocol). Of a job with checkpoints a commit has
//! the number of the checkpoint as well, as the version of an application of its own, so that one that is made again is known.

use std::collections::BTreeMap;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_json::LineDelimitedWriter;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::files::problem;
use super::partition_keys;
use crate::random::unique;
use crate::storage::Location;

/// Where the log is, in the directory of the table.
const DIRECTORY: &str = "_delta_log";

/// What others than appended rows need of a writer: none of it is done here.
const WRITER_FEATURES: [&str; 3] = ["appendOnly", "invariants", "timestampNtz"];

/// Characters that stand for themselves in no path of the log.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// How often a number is tried that others have taken meanwhile.
const ATTEMPTS_MAX: usize = 1_000;

/// What a table is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DeltaTable {
    /// Its columns, as the log has them.
    pub schema: Value,
    pub partition_columns: Vec<String>,
    /// What stands for NULL in the names of directories.
    pub null_name: String,
    /// Whether it has columns of times that are no instants, which old readers do not know.
    pub has_local_times: bool,
}

/// The log of a table that is written.
pub(super) struct DeltaLog {
    directory: Location,
    table: DeltaTable,
    /// Tells the commits of this writer from those of all others.
    writer: String,
    /// Of the next checkpoint.
    next_version: u64,
    /// Commits before this number were there when it was opened: none is this writer's.
    opened_at: u64,
    /// Commits before this number are there, and have been looked at.
    read_until: u64,
    /// Whether the table is there.
    exists: bool,
}

/// What is in the directory of a log.
struct Listed {
    /// The numbers of the commits, in ascending order.
    commits: Vec<u64>,
    /// The newest checkpoint, by the number of the last commit that it has.
    checkpoint: Option<u64>,
    /// The files of that: one that is large has several.
    checkpoint_files: Vec<String>,
}

/// Which commit of a writer files are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transaction {
    pub writer: String,
    pub version: u64,
}

impl DeltaLog {
    /// The log of the table in a directory, which may not be there yet.
    ///
    /// # Errors
    /// Where the table has other columns, or needs more of a writer than this one does.
    pub fn open(directory: &Location, job: Option<&str>, table: DeltaTable) -> Result<DeltaLog, String> {
        let of_job = job.map_or_else(String::new, |job| format!("{job}-"));
        let writer = format!("pelton-{of_job}{:016x}", unique());
        let directory = directory.join(DIRECTORY);
        let mut log =
            DeltaLog { directory, table, writer, next_version: 0, opened_at: 0, read_until: 0, exists: false };
        let listed = log.listed()?;
        log.opened_at = listed.last().map_or(0, |last| last + 1);
        log.read_until = log.opened_at;
        log.check_table(&listed)?;
        Ok(log)
    }

    /// The next transaction of this writer.
    pub fn next_transaction(&mut self) -> Transaction {
        self.next_version += 1;
        Transaction { writer: self.writer.clone(), version: self.next_version - 1 }
    }

    /// Adds files to the table, by their names and sizes in bytes, once for each transaction.
    ///
    /// # Errors
    /// Where the log cannot be written, or the table has become another one.
    pub fn commit(&mut self, transaction: Option<&Transaction>, files: &[(String, u64)]) -> Result<(), String> {
        if files.is_empty() || self.has(transaction)? {
            return Ok(());
        }
        for _ in 0..ATTEMPTS_MAX {
            let version = self.read_until;
            if self.create(version, &self.actions(version, transaction, files))? {
                (self.read_until, self.exists) = (version + 1, true);
                return Ok(());
            }
            self.pass(version)?;
        }
        Err(format!("others have made {ATTEMPTS_MAX} commits while one was tried"))
    }

    /// Whether a transaction is in the log.
    fn has(&self, transaction: Option<&Transaction>) -> Result<bool, String> {
        let Some(Transaction { writer, version }) = transaction else { return Ok(false) };
        let version_of = |action: &Value| {
            let known = action.get("txn").filter(|known| known["appId"] == **writer)?;
            known["version"].as_u64()
        };
        let first = if *writer == self.writer { self.opened_at } else { 0 };
        let known = self.find(&self.listed()?, first, |actions| actions.iter().filter_map(version_of).max())?;
        Ok(known.is_some_and(|known| known >= *version))
    }

    /// What is found in the newest commit that has it, from that number on. The newest checkpoint stands for the commits up to it.
    fn find<T>(
        &self,
        listed: &Listed,
        first: u64,
        mut find: impl FnMut(&[Value]) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let is_read = |number: &&u64| **number >= first && listed.checkpoint.is_none_or(|last| **number > last);
        for number in listed.commits.iter().rev().filter(is_read) {
            if let Some(found) = find(&self.read(*number)?) {
                return Ok(Some(found));
            }
        }
        match listed.checkpoint {
            Some(last) if last >= first => Ok(find(&self.read_checkpoint(listed)?)),
            _ => Ok(None),
        }
    }

    /// Looks at a commit that another writer has made.
    fn pass(&mut self, number: u64) -> Result<(), String> {
        (self.read_until, self.exists) = (number + 1, true);
        for action in self.read(number)? {
            self.check_action(&action)?;
        }
        Ok(())
    }

    /// Checks that the table which is there has the columns of this one.
    fn check_table(&mut self, listed: &Listed) -> Result<(), String> {
        if listed.last().is_none() {
            return Ok(());
        }
        let mut newest = [("metaData", None), ("protocol", None)];
        self.find(listed, 0, |actions| {
            for (kind, known) in newest.iter_mut().filter(|(_, known)| known.is_none()) {
                *known = actions.iter().rev().find(|action| action.get(*kind).is_some()).cloned();
            }
            newest.iter().all(|(_, known)| known.is_some()).then_some(())
        })?;
        for (kind, known) in newest {
            let action = known.ok_or_else(|| format!("has a log without a commit that says its {kind}"))?;
            self.check_action(&action)?;
        }
        self.exists = true;
        Ok(())
    }

    /// Refuses what changes the table to one that cannot be written.
    fn check_action(&self, action: &Value) -> Result<(), String> {
        if let Some(metadata) = action.get("metaData") {
            self.check_columns(metadata)?;
        }
        let Some(protocol) = action.get("protocol") else { return Ok(()) };
        let features = protocol["writerFeatures"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let unknown: Vec<&str> = features.filter(|feature| !WRITER_FEATURES.contains(feature)).collect();
        match protocol["minWriterVersion"].as_u64() {
            Some(..=2) => Ok(()),
            Some(7) if unknown.is_empty() => Ok(()),
            Some(7) => Err(format!("is a table with {}, and rows are appended to tables without", unknown.join(", "))),
            _ => Err("is a table of a version of Delta that rows cannot be appended to".to_owned()),
        }
    }

    fn check_columns(&self, metadata: &Value) -> Result<(), String> {
        let text = metadata["schemaString"].as_str().unwrap_or_default();
        let known: Value = serde_json::from_str(text).map_err(|error| format!("has a log without columns: {error}"))?;
        let (known, wanted) = (described(&known), described(&self.table.schema));
        if known != wanted {
            return Err(format!("is there already, with the columns {known}, and the table has {wanted}"));
        }
        if text.contains("delta.invariants") {
            return Err("has columns with conditions, which are not tested".to_owned());
        }
        let partitioned = metadata["partitionColumns"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let partitioned: Vec<&str> = partitioned.collect();
        if partitioned != self.table.partition_columns {
            let wanted = self.table.partition_columns.join(", ");
            return Err(format!(
                "is there already, PARTITIONED BY ({}), and the table is PARTITIONED BY ({wanted})",
                partitioned.join(", ")
            ));
        }
        Ok(())
    }

    /// The lines of a commit.
    fn actions(&self, number: u64, transaction: Option<&Transaction>, files: &[(String, u64)]) -> Vec<Value> {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let operation = if transaction.is_some() { "STREAMING UPDATE" } else { "WRITE" };
        let engine = concat!("pelton/", env!("CARGO_PKG_VERSION"));
        let mut actions = vec![json!({"commitInfo": {
            "timestamp": now_ms, "operation": operation, "operationParameters": {"mode": "Append"}, "engineInfo": engine,
        }})];
        if !self.exists {
            actions.push(self.protocol());
            actions.push(json!({"metaData": {
                "id": identifier(), "format": {"provider": "parquet", "options": {}},
                "schemaString": self.table.schema.to_string(), "partitionColumns": self.table.partition_columns,
                "configuration": {}, "createdTime": now_ms,
            }}));
        }
        debug_assert!(self.exists || number == 0, "a table begins with its first commit");
        if let Some(Transaction { writer, version }) = transaction {
            actions.push(json!({"txn": {"appId": writer, "version": version, "lastUpdated": now_ms}}));
        }
        for (name, bytes) in files {
            actions.push(json!({"add": {
                "path": utf8_percent_encode(name, ESCAPED).to_string(), "partitionValues": self.partition_values(name),
                "size": bytes, "modificationTime": now_ms, "dataChange": true,
            }}));
        }
        actions
    }

    fn protocol(&self) -> Value {
        match self.table.has_local_times {
            true => json!({"protocol": {
                "minReaderVersion": 3, "minWriterVersion": 7,
                "readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz"],
            }}),
            false => json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}),
        }
    }

    /// The values that the name of a file tells.
    fn partition_values(&self, name: &str) -> Map<String, Value> {
        let directory = name.rsplit_once('/').map_or("", |(directory, _)| directory);
        let values: BTreeMap<String, String> = partition_keys::values(directory).into_iter().collect();
        let value = |column: &String| {
            let value = values.get(column).filter(|value| **value != self.table.null_name);
            (column.clone(), value.map_or(Value::Null, |value| Value::String(value.clone())))
        };
        self.table.partition_columns.iter().map(value).collect()
    }

    fn listed(&self) -> Result<Listed, String> {
        let names = self.names().map_err(|error| self.failed(&error))?;
        let mut commits: Vec<u64> = names.iter().filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect();
        commits.sort_unstable();
        let checkpoint = names.iter().filter_map(|name| checkpoint_number(name)).max();
        let is_newest = |name: &String| checkpoint.is_some() && checkpoint_number(name) == checkpoint;
        Ok(Listed { commits, checkpoint, checkpoint_files: names.into_iter().filter(is_newest).collect() })
    }

    fn names(&self) -> io::Result<Vec<String>> {
        if let Some(bucket) = self.directory.bucket() {
            let found = bucket.list(&format!("{}/", self.directory.key()))?;
            let name = |key: &str| key.rsplit_once('/').map_or(key, |(_, name)| name).to_owned();
            return Ok(found.iter().map(|found| name(&found.key)).collect());
        }
        match self.directory.disk().names(self.directory.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            names => names,
        }
    }

    /// What a commit says, line by line.
    fn read(&self, number: u64) -> Result<Vec<Value>, String> {
        let location = self.directory.join(name(number));
        let bytes = location.read().map_err(|error| self.failed(&error))?;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let wrong = |error: serde_json::Error| format!("{location} is no commit: {error}");
        lines.map(|line| serde_json::from_slice(line).map_err(wrong)).collect()
    }

    /// What the newest checkpoint says of the table and of its writers.
    fn read_checkpoint(&self, listed: &Listed) -> Result<Vec<Value>, String> {
        let mut actions = Vec::new();
        for name in &listed.checkpoint_files {
            let location = self.directory.join(name);
            let bytes = location.read().map_err(|error| self.failed(&error))?;
            let read = actions_of_checkpoint(bytes.into());
            actions.extend(read.map_err(|problem| format!("{location} is no checkpoint: {problem}"))?);
        }
        Ok(actions)
    }

    /// Makes the commit of a number, as a whole or not at all; whether nobody else had made it.
    fn create(&self, number: u64, actions: &[Value]) -> Result<bool, String> {
        let text: String = actions.iter().map(|action| format!("{action}\n")).collect();
        self.directory.join(name(number)).create(text.as_bytes()).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> String {
        format!("{}: {}", self.directory, problem(error))
    }
}

/// The number of the last commit that a checkpoint has, by the name of its file: `10.checkpoint.parquet`, or `10.checkpoint.1.3.parquet`.
fn checkpoint_number(name: &str) -> Option<u64> {
    name.strip_suffix(".parquet")?.split_once(".checkpoint").and_then(|(number, _)| number.parse().ok())
}

/// The actions in a file of a checkpoint, as commits have them, but for those of the table's files.
fn actions_of_checkpoint(bytes: Bytes) -> Result<Vec<Value>, String> {
    let file = ParquetRecordBatchReaderBuilder::try_new(bytes).map_err(|error| error.to_string())?;
    let wanted = ProjectionMask::columns(file.parquet_schema(), ["metaData", "protocol", "txn"]);
    let reader = file.with_projection(wanted).build().map_err(|error| error.to_string())?;
    let mut lines = LineDelimitedWriter::new(Vec::new());
    for rows in reader {
        lines.write(&rows.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    lines.finish().map_err(|error| error.to_string())?;
    let text = lines.into_inner();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).map_err(|error| error.to_string())).collect()
}

impl Listed {
    /// The number of the newest commit, if there is one.
    fn last(&self) -> Option<u64> {
        self.commits.last().copied().max(self.checkpoint)
    }
}

/// The name of a commit.
fn name(number: u64) -> String {
    format!("{number:020}.json")
}

/// Columns with their types, for people, by their names.
fn described(schema: &Value) -> String {
    let fields = schema["fields"].as_array().into_iter().flatten();
    let described = fields.map(|field| {
        let data_type = match &field["type"] {
            Value::String(name) => name.clone(),
            nested => nested.to_string(),
        };
        format!("{} {data_type}", field["name"].as_str().unwrap_or_default())
    });
    let mut described: Vec<String> = described.collect();
    described.sort_unstable();
    described.join(", ")
}

/// The identifier of a new table: 122 random bits, as UUIDs of version 4 have them.
fn identifier() -> String {
    let (high, low) = (unique(), unique());
    let (high, low) = (high & !0xF000 | 0x4000, low & !(0b11 << 62) | 0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xFFFF,
        high & 0xFFFF,
        low >> 48,
        low & 0xFFFF_FFFF_FFFF
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// A directory that is removed.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            let path = std::env::temp_dir().join(format!("pelton-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Directory(path)
        }

        fn commit(&self, number: u64) -> PathBuf {
            self.0.join(DIRECTORY).join(name(number))
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn table(columns: &[(&str, &str)], partition_columns: &[&str]) -> DeltaTable {
        let field = |(name, data_type): &(&str, &str)| json!({"name": name, "type": data_type, "nullable": true, "metadata": {}});
        DeltaTable {
            schema: json!({"type": "struct", "fields": columns.iter().map(field).collect::<Vec<_>>()}),
            partition_columns: partition_columns.iter().map(|name| (*name).to_owned()).collect(),
            null_name: "NONE".into(),
            has_local_times: false,
        }
    }

    fn open(place: &Directory, table: DeltaTable) -> Result<DeltaLog, String> {
        DeltaLog::open(&Location::local(&place.0), Some("job"), table)
    }

    fn files(names: &[&str]) -> Vec<(String, u64)> {
        names.iter().map(|name| ((*name).to_owned(), 7)).collect()
    }

    /// What the log adds, commit by commit.
    fn added(log: &DeltaLog) -> Vec<Vec<String>> {
        let path = |action: &Value| Some(action.get("add")?["path"].as_str()?.to_owned());
        let commits = log.listed().unwrap().commits.into_iter().map(|number| log.read(number).unwrap());
        commits.map(|actions| actions.iter().filter_map(path).collect()).collect()
    }

    #[test]
    fn a_transaction_is_committed_once() {
        let place = Directory::new("delta-once");
        let mut log = open(&place, table(&[("v", "long")], &[])).unwrap();
        let [first, second] = [log.next_transaction(), log.next_transaction()];
        log.commit(Some(&first), &files(&["a"])).unwrap();
        log.commit(Some(&first), &files(&["a"])).unwrap();
        log.commit(Some(&second), &[]).unwrap();
        // A run that goes on from a checkpoint commits that of the run before, and has transactions of its own.
        let mut next = open(&place, table(&[("v", "long")], &[])).unwrap();
        next.commit(Some(&first), &files(&["a"])).unwrap();
        next.commit(Some(&second), &files(&["b"])).unwrap();
        let third = next.next_transaction();
        assert_eq!((third.version, third.writer == first.writer), (0, false));
        next.commit(Some(&third), &files(&["c"])).unwrap();
        assert_eq!(added(&next), [["a"], ["b"], ["c"]]);
    }

    #[test]
    fn writers_take_turns() {
        let place = Directory::new("delta-turns");
        let columns = [("v", "long"), ("k", "string")];
        let [mut one, mut other] = [0, 1].map(|_| open(&place, table(&columns, &["k"])).unwrap());
        one.commit(None, &files(&["k=a b%2Fc/1"])).unwrap();
        other.commit(None, &files(&["k=NONE/2"])).unwrap();
        one.commit(None, &files(&["k=ä/3"])).unwrap();
        assert_eq!(added(&one), [["k=a%20b%252Fc/1"], ["k=NONE/2"], ["k=%C3%A4/3"]]);
        let values = |number| {
            let actions = one.read(number).unwrap();
            let add = actions.iter().find_map(|action| action.get("add")).unwrap();
            add["partitionValues"]["k"].clone()
        };
        assert_eq!([values(0), values(1), values(2)], [json!("a b/c"), Value::Null, json!("ä")]);
        // The table is made once.
        let makes = |number| one.read(number).unwrap().iter().any(|action| action.get("metaData").is_some());
        assert_eq!([makes(0), makes(1), makes(2)], [true, false, false]);
    }

    #[test]
    fn a_table_that_is_another_one_is_refused() {
        let place = Directory::new("delta-refused");
        open(&place, table(&[("v", "long"), ("k", "string")], &["k"]))
            .unwrap()
            .commit(None, &files(&["k=a/1"]))
            .unwrap();
        assert!(open(&place, table(&[("k", "string"), ("v", "long")], &["k"])).is_ok(), "columns stand in any order");
        let refused = |table| open(&place, table).err().unwrap();
        assert_eq!(
            refused(table(&[("v", "integer"), ("k", "string")], &["k"])),
            "is there already, with the columns k string, v long, and the table has k string, v integer"
        );
        assert_eq!(
            refused(table(&[("v", "long"), ("k", "string")], &[])),
            "is there already, PARTITIONED BY (k), and the table is PARTITIONED BY ()"
        );
        let log = open(&place, table(&[("v", "long"), ("k", "string")], &["k"])).unwrap();
        let protocol = json!({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "columnMapping"]}});
        assert!(log.create(1, &[protocol]).unwrap());
        assert_eq!(
            refused(table(&[("v", "long"), ("k", "string")], &["k"])),
            "is a table with columnMapping, and rows are appended to tables without"
        );
        // One that was open sees it when it commits.
        let mut log = log;
        assert!(log.commit(None, &files(&["k=a/2"])).unwrap_err().contains("columnMapping"));
        [0, 1].iter().for_each(|number| fs::remove_file(place.commit(*number)).unwrap());
        fs::write(place.commit(5), "{\"commitInfo\": {}}\n").unwrap();
        assert_eq!(refused(table(&[("v", "long")], &[])), "has a log without a commit that says its metaData");
    }
}
