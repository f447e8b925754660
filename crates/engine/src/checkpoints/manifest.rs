//! What a checkpoint says of itself, and where the state of its operators is.

use pelton_runtime::checkpoint::RunSnapshot;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use super::parts::ProgramParts;

/// The format of checkpoints that this version writes and reads.
pub(super) const FORMAT: u32 = 2;

/// What a checkpoint is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointKind {
    /// Taken at an interval. The oldest are removed.
    Checkpoint,
    /// Asked for. It stays until it is removed by hand.
    Savepoint,
}

/// What had become of a job at its checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobStage {
    /// It ran on.
    Running,
    /// It was stopped there.
    Stopped,
    /// All of its input had been processed.
    Finished,
}

/// A checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub format: u32,
    /// The version of Pelton that wrote it.
    pub version: String,
    /// Counted from 1 for each job.
    pub id: u64,
    pub kind: CheckpointKind,
    pub job: String,
    /// The statement of the job.
    pub statement: String,
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub created_ms: i64,
    pub stage: JobStage,
    /// What tells whether the transaction was committed in which the job writes rows, and without which the checkpoint does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// The parts of the program, as those of the run.
    pub parts: ProgramParts,
    /// What the run was, but for the state of operators.
    pub run: RunSnapshot,
    /// Where the state of each operator is.
    pub states: Vec<Vec<Piece>>,
}

/// A part of an operator's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// The name of the value: its hash.
    pub name: String,
    pub bytes: u64,
}

impl Piece {
    /// The name tells the content, so that equal pieces are written once.
    pub fn of(bytes: &[u8]) -> Piece {
        Piece { name: format!("state-{:032x}", XxHash3_128::oneshot(bytes)), bytes: bytes.len() as u64 }
    }

    /// Whether these bytes are its own.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        Piece::of(bytes) == *self
    }
}

impl Manifest {
    /// The names of the pieces that it needs.
    pub fn pieces(&self) -> Vec<String> {
        self.states.iter().flatten().map(|piece| piece.name.clone()).collect()
    }

    /// As text: JSON, and a hash of it in the last line.
    pub fn to_text(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("all of it has a form in JSON");
        format!("{json}\n{:032x}\n", XxHash3_128::oneshot(json.as_bytes()))
    }

    /// Reads what [`Manifest::to_text`] wrote, or says what is wrong.
    pub fn of_text(text: &str) -> Result<Manifest, String> {
        let parts = text.strip_suffix('\n').and_then(|text| text.rsplit_once('\n'));
        let (json, hash) = parts.ok_or("is cut off")?;
        if hash != format!("{:032x}", XxHash3_128::oneshot(json.as_bytes())) {
            return Err("does not have the hash in its last line: it was changed or cut off".to_owned());
        }
        let format = serde_json::from_str::<Format>(json).map_err(|error| error.to_string())?.format;
        if format != FORMAT {
            return Err(format!("has format {format}, and this version reads format {FORMAT}"));
        }
        let manifest: Manifest = serde_json::from_str(json).map_err(|error| error.to_string())?;
        match manifest.states.len() == manifest.run.operators.len() {
            true => Ok(manifest),
            false => Err("has another number of operators than of states".to_owned()),
        }
    }
}

/// What is read first.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// The name of a checkpoint's value.
pub(super) fn name_of(kind: CheckpointKind, id: u64) -> String {
    match kind {
        CheckpointKind::Checkpoint => format!("checkpoint-{id:010}.json"),
        CheckpointKind::Savepoint => format!("savepoint-{id:010}.json"),
    }
}

/// What the name of a checkpoint's value begins with while its transaction may not be committed.
const PENDING: &str = "pending-";

/// The name of a checkpoint's value while its transaction may not be committed.
pub(super) fn pending_name_of(kind: CheckpointKind, id: u64) -> String {
    format!("{PENDING}{}", name_of(kind, id))
}

/// The kind and number of a checkpoint whose transaction may not be committed, by the name of its value.
pub(super) fn pending_id_of(name: &str) -> Option<(CheckpointKind, u64)> {
    id_of(name.strip_prefix(PENDING)?)
}

/// The kind and number of a checkpoint, by the name of its value.
pub(super) fn id_of(name: &str) -> Option<(CheckpointKind, u64)> {
    let (kind, number) = name.strip_suffix(".json")?.split_once('-')?;
    let kind = match kind {
        "checkpoint" => CheckpointKind::Checkpoint,
        "savepoint" => CheckpointKind::Savepoint,
        _ => return None,
    };
    Some((kind, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            format: FORMAT,
            version: "0".to_owned(),
            id: 7,
            kind: CheckpointKind::Savepoint,
            job: "j".to_owned(),
            statement: "INSERT INTO t\nSELECT 'é'".to_owned(),
            created_ms: 1,
            stage: JobStage::Running,
            transaction: None,
            parts: ProgramParts::default(),
            run: RunSnapshot::default(),
            states: Vec::new(),
        }
    }

    #[test]
    fn a_manifest_that_was_changed_anywhere_is_found_out() {
        let text = manifest().to_text();
        assert_eq!(Manifest::of_text(&text).unwrap().statement, manifest().statement);
        for at in (0..text.len()).filter(|&at| text.is_char_boundary(at)) {
            assert!(Manifest::of_text(&text[..at]).is_err(), "cut at {at}");
        }
        let bytes = text.as_bytes();
        for at in 0..bytes.len() - 1 {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1;
            if let Ok(changed) = String::from_utf8(changed) {
                assert!(Manifest::of_text(&changed).is_err(), "changed at {at}");
            }
        }
    }

    #[test]
    fn other_formats_are_refused_by_their_number() {
        let other = Manifest { format: 99, ..manifest() }.to_text();
        assert_eq!(Manifest::of_text(&other).unwrap_err(), "has format 99, and this version reads format 2");
    }

    #[test]
    fn names_tell_kind_and_number() {
        let name = name_of(CheckpointKind::Savepoint, 7);
        assert_eq!((name.as_str(), id_of(&name)), ("savepoint-0000000007.json", Some((CheckpointKind::Savepoint, 7))));
        assert_eq!(pending_id_of(&pending_name_of(CheckpointKind::Savepoint, 7)), Some((CheckpointKind::Savepoint, 7)));
        assert_eq!(
            (id_of("pending-checkpoint-0000000007.json"), pending_id_of("checkpoint-0000000007.json")),
            (None, None)
        );
        assert_eq!((id_of("state-0a"), id_of("checkpoint-x.json")), (None, None));
    }
}
