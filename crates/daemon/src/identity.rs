//! The node's identity: a UUID in the data directory, made at the first start.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use baton_types::NodeId;

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file is there but holds no id. It is left as it is: another id is another node.
    #[error(
        "{} holds no node id ({cause}); restore it, or remove the whole data directory to let this \
         machine join as a new node: what lies beside it was decided under the old id",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        cause: baton_types::ids::IdError,
    },
    /// The system said no.
    #[error("node id {}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// From the system.
        cause: std::io::Error,
    },
}

/// Reads the node's id, or makes one that is durable before it is used.
pub(crate) fn node_id(data_dir: &Path) -> Result<NodeId, IdentityError> {
    let path = data_dir.join("node-id");
    let io = |cause| IdentityError::Io { path: path.clone(), cause };
    match File::open(&path) {
        Ok(file) => {
            let mut text = String::new();
            file.take(64).read_to_string(&mut text).map_err(io)?;
            text.trim()
                .parse()
                .map_err(|cause| IdentityError::Damaged { path: path.clone(), cause })
        }
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            let id = NodeId::from_random(rand::random());
            let draft = data_dir.join("node-id.tmp");
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(&draft)
                .map_err(io)?;
            writeln!(file, "{id}").and_then(|()| file.sync_all()).map_err(io)?;
            std::fs::rename(&draft, &path).map_err(io)?;
            File::open(data_dir).and_then(|folder| folder.sync_all()).map_err(io)?;
            Ok(id)
        }
        Err(cause) => Err(io(cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_made_once_and_a_damaged_one_is_never_replaced() {
        let dir = tempfile::tempdir().expect("a folder");
        let id = node_id(dir.path()).expect("an id");
        assert_eq!(node_id(dir.path()).expect("the same"), id);
        std::fs::write(dir.path().join("node-id"), "nonsense").expect("written");
        assert!(matches!(node_id(dir.path()), Err(IdentityError::Damaged { .. })));
    }
}
