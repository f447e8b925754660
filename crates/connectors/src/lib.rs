//! Sources and sinks, one folder each, and the encodings they share.
