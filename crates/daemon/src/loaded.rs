//! Services that were loaded at run time: their files are kept in the data directory and read again
//! at every start.

use std::path::{Path, PathBuf};

use baton_types::GroupName;

/// The folder of loaded service files.
pub(crate) fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("services.d")
}

/// Keeps the text of a service file; the caller has checked it.
pub(crate) fn keep(data_dir: &Path, group: &GroupName, toml: &str) -> std::io::Result<()> {
    let folder = folder(data_dir);
    std::fs::create_dir_all(&folder)?;
    let draft = folder.join(format!("{group}.toml.tmp"));
    std::fs::write(&draft, toml)?;
    std::fs::File::open(&draft)?.sync_all()?;
    std::fs::rename(&draft, folder.join(format!("{group}.toml")))?;
    std::fs::File::open(&folder)?.sync_all()
}

/// Whether the service was loaded at run time.
pub(crate) fn is_kept(data_dir: &Path, group: &GroupName) -> bool {
    folder(data_dir).join(format!("{group}.toml")).is_file()
}

/// Forgets it; one that came from the configuration is not here.
pub(crate) fn forget(data_dir: &Path, group: &GroupName) -> std::io::Result<()> {
    match std::fs::remove_file(folder(data_dir).join(format!("{group}.toml"))) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        // Else a power cut could bring it back.
        Ok(()) => std::fs::File::open(folder(data_dir))?.sync_all(),
        Err(cause) => Err(cause),
    }
}
