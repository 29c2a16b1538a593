//! The configuration as it lies on the disk: `baton.toml`, `services.d/*.toml` beside it, and the
//! files that these name.
//!
//! Invariant: what `baton check` accepts the daemon can start with, since both call [`load`]; it
//! changes nothing, and a file that others may write or a key that others may read is a fault,
//! never a warning.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use baton_config::limits::FILE_MAX_BYTES;
use baton_config::{Fault, Host, ServiceSettings, Settings, SourceFile};
use baton_depot::{DepotUrl, TrustedKeys};
use baton_wire::seal::{KeyRing, Sealing};

/// A configuration that a daemon can start with.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Every setting.
    pub settings: Settings,
    /// How the ring's packets are protected: the keys of `[ring] key_file`.
    pub sealing: Sealing,
    /// The files that were read, `baton.toml` first.
    pub files: Vec<PathBuf>,
    /// What works but defeats itself, each as `file:line:column: key: …`.
    pub warnings: Vec<String>,
}

/// A service file that a running daemon can load.
#[derive(Clone, Debug)]
pub struct LoadedService {
    /// Its settings.
    pub service: ServiceSettings,
    /// What works but defeats itself.
    pub warnings: Vec<String>,
}

/// A configuration with faults; nothing of it may take effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFaults {
    /// At least one, each as `file:line:column: key: what was found; what is allowed`.
    pub faults: Vec<String>,
    /// What works but defeats itself.
    pub warnings: Vec<String>,
}

impl fmt::Display for ConfigFaults {
    /// The faults, one per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.faults.join("\n"))
    }
}

impl std::error::Error for ConfigFaults {}

/// Reads `config`, the service files beside it and the files that they name.
///
/// # Errors
///
/// Every fault of all files. Files that are named in a text with faults are looked at once it has
/// none.
pub fn load(config: &Path) -> Result<Loaded, ConfigFaults> {
    let mut findings = Findings::default();
    let main = findings.read_text(config);
    let folder = config.parent().unwrap_or(Path::new("")).join("services.d");
    let mut sources = Vec::new();
    for path in findings.service_files(&folder) {
        sources.extend(findings.read_text(&path).map(|text| SourceFile::new(path, text)));
    }
    let Some(main) = main else {
        return Err(findings.refuse());
    };
    let main = SourceFile::new(config, main);
    let outcome = baton_config::parse(&main, &sources, &host());
    findings.add(outcome.faults, outcome.warnings);
    sources.insert(0, main);
    let Some(settings) = outcome.settings else {
        return Err(findings.refuse());
    };
    findings.check_folder(&sources, &settings.node.data_dir);
    let sealing = match &settings.ring.key_file {
        Some(path) => findings.read_keys(&sources, path),
        None => Some(Sealing::Plain),
    };
    for service in &settings.services {
        findings.check_service(&sources, service);
    }
    match sealing {
        Some(sealing) if findings.faults.is_empty() => {
            let files = sources.into_iter().map(|source| source.path).collect();
            Ok(Loaded { settings, sealing, files, warnings: findings.warnings })
        }
        _ => Err(findings.refuse()),
    }
}

/// Checks the text of one service file for a daemon that runs with `running`.
///
/// # Errors
///
/// Every fault of the file.
pub fn load_service(
    path: &Path,
    text: &str,
    running: &Settings,
) -> Result<LoadedService, ConfigFaults> {
    let source = SourceFile::new(path, text);
    let outcome = baton_config::parse_service(&source, running);
    let mut findings = Findings::default();
    findings.add(outcome.faults, outcome.warnings);
    if let Some(service) = &outcome.service {
        findings.check_service(std::slice::from_ref(&source), service);
    }
    match outcome.service {
        Some(service) if findings.faults.is_empty() => {
            Ok(LoadedService { service, warnings: findings.warnings })
        }
        _ => Err(findings.refuse()),
    }
}

/// What was found so far.
#[derive(Debug, Default)]
struct Findings {
    faults: Vec<String>,
    warnings: Vec<String>,
}

impl Findings {
    fn add(&mut self, faults: Vec<Fault>, warnings: Vec<Fault>) {
        self.faults.extend(faults.iter().map(ToString::to_string));
        self.warnings.extend(warnings.iter().map(ToString::to_string));
    }

    fn refuse(self) -> ConfigFaults {
        let Self { mut faults, warnings } = self;
        faults.dedup();
        ConfigFaults { faults, warnings }
    }

    /// A fault of a file as a whole.
    fn whole(&mut self, path: &Path, message: String) {
        self.faults.push(fault_at(path, (1, 1), "file", message));
    }

    /// A fault of what `value` names, at each place where the configuration says so.
    fn named(&mut self, sources: &[SourceFile], key: &str, value: &str, message: &str) {
        for (path, at) in places(sources, value) {
            let fault = fault_at(path, at, key, message.to_owned());
            if !self.faults.contains(&fault) {
                self.faults.push(fault);
            }
        }
    }

    fn warn_named(&mut self, sources: &[SourceFile], key: &str, value: &str, message: &str) {
        for (path, at) in places(sources, value) {
            let warning = fault_at(path, at, key, message.to_owned());
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }

    /// The text of a configuration file, unless it is missing, too large or no text.
    fn read_text(&mut self, path: &Path) -> Option<String> {
        match read_limited(path, FILE_MAX_BYTES) {
            Ok((metadata, _)) if metadata.len() > FILE_MAX_BYTES as u64 => {
                let found = metadata.len();
                self.whole(
                    path,
                    format!("found {found} bytes; at most {FILE_MAX_BYTES} are allowed"),
                );
                None
            }
            Ok((metadata, bytes)) => {
                if is_open_to_writers(&metadata) {
                    // Its text is read all the same, so that its other faults are told at once.
                    self.whole(path, open_to_writers(&metadata));
                }
                match String::from_utf8(bytes) {
                    Ok(text) => Some(text),
                    Err(cause) => {
                        let at = cause.utf8_error().valid_up_to();
                        let message = format!("found no UTF-8 at byte {at}; TOML is UTF-8 text");
                        self.whole(path, message);
                        None
                    }
                }
            }
            Err(cause) => {
                self.whole(path, format!("cannot be read: {cause}"));
                None
            }
        }
    }

    /// `*.toml` in `folder`, in the order of their names; no folder, no services.
    fn service_files(&mut self, folder: &Path) -> Vec<PathBuf> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
            Err(cause) => {
                self.whole(folder, format!("cannot be read: {cause}"));
                return Vec::new();
            }
        };
        if let Some(metadata) = fs::metadata(folder).ok().filter(is_open_to_writers) {
            self.whole(folder, open_to_writers(&metadata));
        }
        let mut paths: Vec<PathBuf> = entries
            .take(FOLDER_MAX_ENTRIES)
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
            .filter(|path| path.file_name().is_none_or(|n| n.as_encoded_bytes()[0] != b'.'))
            .collect();
        paths.sort();
        paths
    }

    fn check_folder(&mut self, sources: &[SourceFile], path: &Path) {
        let shown = path.display().to_string();
        match fs::metadata(path) {
            Ok(metadata) if !metadata.is_dir() => {
                let message = format!("found a file at {shown}; a folder is needed");
                self.named(sources, "node.data_dir", &shown, &message);
            }
            Ok(metadata) if is_open_to_writers(&metadata) => {
                let message = open_to_writers(&metadata);
                self.named(sources, "node.data_dir", &shown, &message);
            }
            // The daemon makes it.
            _ => {}
        }
    }

    fn read_keys(&mut self, sources: &[SourceFile], path: &Path) -> Option<Sealing> {
        let shown = path.display().to_string();
        let message = match read_limited(path, KEY_FILE_MAX_BYTES) {
            Err(cause) => format!("{shown} cannot be read: {cause}"),
            Ok((metadata, _)) if metadata.mode() & 0o077 != 0 => format!(
                "found {shown} with mode {:04o}; 0600 is allowed: others can use a key that they \
                 can read",
                metadata.mode() & 0o7777
            ),
            Ok((_, bytes)) => match KeyRing::parse(&String::from_utf8_lossy(&bytes)) {
                Ok(keys) => return Some(Sealing::Keys(keys)),
                Err(cause) => format!("{shown}: {cause}"),
            },
        };
        self.named(sources, "ring.key_file", &shown, &message);
        None
    }

    fn check_service(&mut self, sources: &[SourceFile], service: &ServiceSettings) {
        for path in &service.trusted_keys {
            let shown = path.display().to_string();
            let message = match fs::metadata(path) {
                Ok(metadata) if is_open_to_writers(&metadata) => {
                    Some(format!("{shown}: {}", open_to_writers(&metadata)))
                }
                _ => TrustedKeys::load(std::slice::from_ref(path)).err().map(|e| e.to_string()),
            };
            if let Some(message) = message {
                self.named(sources, "trusted_keys", &shown, &message);
            }
        }
        match service.depot.parse::<DepotUrl>() {
            Err(cause) => {
                self.named(sources, "depot", &service.depot, &format!("found {cause}"));
            }
            Ok(url) => {
                if let Some(folder) = url.folder().filter(|folder| !folder.is_dir()) {
                    let message = format!(
                        "found no folder {} on this machine; until it is there nothing new can be \
                         fetched",
                        folder.display()
                    );
                    self.warn_named(sources, "depot", &service.depot, &message);
                }
            }
        }
        if let Some(user) = &service.run_as
            && let Err(cause) = baton_platform::user::lookup(user)
        {
            self.named(sources, "run_as", user, &cause.to_string());
        }
    }
}

/// Each place where a text of `sources` has `value` in quotes, outside comments; the first line of
/// the first source if there is none, as for defaults and escaped texts.
fn places<'a>(sources: &'a [SourceFile], value: &str) -> Vec<(&'a Path, (usize, usize))> {
    let wanted = [format!("\"{value}\""), format!("'{value}'")];
    let mut places = Vec::new();
    for source in sources {
        for (at, line) in source.text.lines().enumerate() {
            if line.trim_start().starts_with('#') {
                continue;
            }
            let offset = wanted.iter().find_map(|wanted| line.find(wanted.as_str()));
            if let Some(offset) = offset {
                let column = line[..offset].chars().count() + 1;
                places.push((source.path.as_path(), (at + 1, column)));
            }
        }
    }
    if places.is_empty() {
        places.extend(sources.first().map(|source| (source.path.as_path(), (1, 1))));
    }
    places
}

fn fault_at(path: &Path, at: (usize, usize), key: &str, message: String) -> String {
    let (line, column) = at;
    Fault { path: path.to_owned(), line, column, key: key.to_owned(), message }.to_string()
}

/// The first `limit` bytes and one more, so that a longer file shows itself as such.
fn read_limited(path: &Path, limit: usize) -> std::io::Result<(Metadata, Vec<u8>)> {
    // A pipe or device would block or never end.
    if !fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    Ok((metadata, bytes))
}

fn is_open_to_writers(metadata: &Metadata) -> bool {
    metadata.mode() & 0o002 != 0
}

fn open_to_writers(metadata: &Metadata) -> String {
    format!(
        "found mode {:04o}; nothing that every user may write is allowed (chmod o-w)",
        metadata.mode() & 0o7777
    )
}

/// This machine's name, as the kernel has it.
fn host() -> Host {
    let name = fs::read_to_string(HOST_NAME).unwrap_or_default();
    Host { name: name.trim().to_owned() }
}

const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// A handful of keys with comments.
const KEY_FILE_MAX_BYTES: usize = 64 * 1024;

/// Entries of services.d that are looked at; a node has at most 64 services.
const FOLDER_MAX_ENTRIES: usize = 4_096;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Node {
        folder: tempfile::TempDir,
    }

    impl Node {
        fn new(main: &str) -> Self {
            let node = Self { folder: tempfile::tempdir().expect("a folder") };
            node.write("baton.toml", main, 0o644);
            node
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn write(&self, name: &str, text: &str, mode: u32) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("changed");
        }

        /// What is found, with the node's folder written as `DIR`.
        fn load(&self) -> Result<Loaded, String> {
            let folder = self.folder.path().display().to_string();
            load(&self.path("baton.toml")).map_err(|e| e.to_string().replace(&folder, "DIR"))
        }

        fn service(&self, name: &str, extra: &str) -> String {
            let folder = self.folder.path().display();
            format!(
                "name = \"{name}\"\ndepot = \"file://{folder}/depot\"\n\
                 trusted_keys = [\"{folder}/depot.pub\"]\n{extra}"
            )
        }
    }

    const MAIN: &str = "[node]\nname = \"n1\"\n";

    #[test]
    fn a_whole_configuration_is_read_in_the_order_of_its_names() {
        let node = Node::new(MAIN);
        let (_, public) = baton_depot::keygen(&node.path("depot")).expect("keys");
        assert!(public.ends_with("depot.pub"));
        node.write("services.d/b.toml", &node.service("b", ""), 0o644);
        node.write("services.d/a.toml", &node.service("a", "run_as = \"root\"\n"), 0o644);
        node.write("services.d/a.toml.bak", "no toml", 0o644);
        node.write("services.d/.hidden.toml", "no toml", 0o644);
        let loaded = node.load().expect("good");
        let names: Vec<String> =
            loaded.settings.services.iter().map(|s| s.name.to_string()).collect();
        assert_eq!(names, ["a.default", "b.default"]);
        assert_eq!(loaded.files.len(), 3);
        assert!(matches!(loaded.sealing, Sealing::Plain));
        assert_eq!(loaded.warnings.len(), 2, "{:?}", loaded.warnings);
        assert!(loaded.warnings[0].contains("a.toml:2:9: depot: found no folder"));
    }

    #[test]
    fn what_the_disk_holds_is_checked_at_the_key_that_names_it() {
        let node = Node::new("");
        let main = format!(
            "[ring]\n# key_file = \"{0}\"\nkey_file = \"{0}\"\n",
            node.path("ring.key").display()
        );
        node.write("baton.toml", &main, 0o644);
        let check = |expected: &str| {
            let found = node.load().expect_err(expected);
            assert!(found.starts_with(expected), "{found}");
        };
        check("DIR/baton.toml:3:12: ring.key_file: DIR/ring.key cannot be read: No such file");
        node.write("ring.key", "secret", 0o644);
        check("DIR/baton.toml:3:12: ring.key_file: found DIR/ring.key with mode 0644; 0600 is");
        node.write("ring.key", "secret", 0o600);
        check("DIR/baton.toml:3:12: ring.key_file: DIR/ring.key: line 1: not a key");
        node.write("ring.key", &"ab".repeat(32), 0o600);
        assert!(matches!(node.load().expect("good").sealing, Sealing::Keys(_)));

        node.write("services.d/r.toml", &node.service("r", "run_as = \"no-such-user\"\n"), 0o644);
        let found = node.load().expect_err("no key, no user");
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines.len(), 2, "{found}");
        assert!(lines[0].starts_with("DIR/services.d/r.toml:3:17: trusted_keys: "), "{found}");
        assert!(lines[1].starts_with("DIR/services.d/r.toml:4:10: run_as: there is no user"));
    }

    #[test]
    fn files_as_a_whole_are_refused() {
        let node = Node::new(MAIN);
        let check = |expected: &str| {
            let found = node.load().expect_err(expected);
            assert!(found.starts_with(expected), "{found}");
        };
        node.write("baton.toml", MAIN, 0o666);
        check("DIR/baton.toml:1:1: file: found mode 0666; nothing that every user may write");
        node.write("baton.toml", &"#".repeat(FILE_MAX_BYTES + 10), 0o644);
        check("DIR/baton.toml:1:1: file: found 1048586 bytes; at most 1048576 are allowed");
        fs::write(node.path("baton.toml"), b"ab\xff").expect("written");
        check("DIR/baton.toml:1:1: file: found no UTF-8 at byte 2");
        fs::remove_file(node.path("baton.toml")).expect("removed");
        check("DIR/baton.toml:1:1: file: cannot be read: No such file");
        fs::create_dir(node.path("baton.toml")).expect("made");
        check("DIR/baton.toml:1:1: file: cannot be read: not a regular file");
    }

    #[test]
    fn one_service_file_is_checked_beside_what_runs() {
        let node = Node::new(MAIN);
        let settings = node.load().expect("good").settings;
        let path = node.path("new.toml");
        let faults = load_service(&path, &node.service("new", "pol = 1\n"), &settings)
            .expect_err("an unknown key");
        assert_eq!(faults.faults.len(), 1, "{faults}");
        baton_depot::keygen(&node.path("depot")).expect("keys");
        let loaded = load_service(&path, &node.service("new", ""), &settings).expect("good");
        assert_eq!(loaded.service.name.to_string(), "new.default");
        assert_eq!(loaded.warnings.len(), 1);
    }
}
