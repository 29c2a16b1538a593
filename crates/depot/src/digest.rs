//! SHA-256 over streams.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use baton_types::Digest;
use sha2::{Digest as _, Sha256};

use crate::error::DepotError;
use crate::limits::COPY_BUFFER_BYTES;

/// Passes on what is written, and digests and counts it.
pub(crate) struct Hashing<W> {
    output: W,
    hasher: Sha256,
    bytes: u64,
}

impl<W: Write> Hashing<W> {
    pub(crate) fn new(output: W) -> Self {
        Self { output, hasher: Sha256::new(), bytes: 0 }
    }

    /// Digest and number of what was written.
    pub(crate) fn finish(self) -> (Digest, u64) {
        (Digest(self.hasher.finalize().into()), self.bytes)
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        let count = self.output.write(content)?;
        self.hasher.update(&content[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Digest of the file at `path`.
pub(crate) fn digest_of(path: &Path) -> Result<Digest, DepotError> {
    let mut file = File::open(path).map_err(DepotError::io("read", path))?;
    digest_of_file(&mut file).map_err(DepotError::io("read", path))
}

/// Digest of what is left of `file`.
pub(crate) fn digest_of_file(file: &mut File) -> io::Result<Digest> {
    let mut output = Hashing::new(io::sink());
    let mut buffer = vec![0; COPY_BUFFER_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(output.finish().0),
            Ok(count) => output.write_all(&buffer[..count])?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
