//! What the rules look at.

/// A tracked text file.
pub struct SourceFile {
    /// Path from the workspace's directory, with forward slashes.
    pub path: String,
    /// Its text.
    pub text: String,
}
