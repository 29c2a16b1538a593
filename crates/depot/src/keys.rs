//! Keys: who may sign, and whose signatures count.
//!
//! Invariant: a secret key is read only from a file that nobody but its owner can read, and is never
//! printed; a signature counts only if one of the trusted keys made it over exactly these bytes.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use baton_types::Digest;
use minisign::{KeyPair, SecretKey, SecretKeyBox};
use minisign_verify::{PublicKey, Signature};
use sha2::{Digest as _, Sha256};

use crate::durable;
use crate::error::DepotError;
use crate::limits::{KEY_FILE_MAX_BYTES, TRUSTED_KEYS_MAX};

/// The public keys whose signatures count.
#[derive(Clone, Default)]
pub struct TrustedKeys {
    keys: Vec<Trusted>,
}

/// One public key.
#[derive(Clone)]
struct Trusted {
    path: PathBuf,
    key: PublicKey,
    /// The first digits of a digest of the key, for file names.
    mark: String,
}

impl TrustedKeys {
    /// Reads minisign public key files.
    ///
    /// # Errors
    ///
    /// Names the first file that is missing or no public key; at least one file is needed.
    pub fn load(paths: &[PathBuf]) -> Result<Self, DepotError> {
        let fault = |path: &Path, reason: String| DepotError::Key { path: path.to_owned(), reason };
        if paths.is_empty() || paths.len() > TRUSTED_KEYS_MAX {
            let found = paths.len();
            let reason = format!("{found} trusted keys: 1 to {TRUSTED_KEYS_MAX} are needed");
            return Err(fault(paths.first().map_or(Path::new("-"), PathBuf::as_path), reason));
        }
        let mut keys = Vec::new();
        for path in paths {
            let text = read_key_file(path)?;
            let key = PublicKey::decode(&text).map_err(|e| {
                let hint =
                    if text.contains("secret key") { "a secret key" } else { "something else" };
                fault(path, format!("{hint} was found, expected a minisign public key ({e})"))
            })?;
            keys.push(Trusted { path: path.clone(), key, mark: mark(&text) });
        }
        Ok(Self { keys })
    }

    /// Whether one of the keys made `signature` (minisign's four lines) over `bytes`.
    ///
    /// # Errors
    ///
    /// A sentence with what was found and what is allowed, for the caller to name what is signed.
    pub fn verify(&self, bytes: &[u8], signature: &str) -> Result<(), String> {
        let signature = Signature::decode(signature).map_err(|e| {
            format!("the signature is damaged ({e}), expected minisign's four lines")
        })?;
        let mut reason = None;
        for Trusted { path, key, .. } in &self.keys {
            // Signatures without pre-hash are of old minisign versions only: not accepted.
            match key.verify(bytes, &signature, false) {
                Ok(()) => return Ok(()),
                Err(minisign_verify::Error::UnexpectedKeyId) => {}
                Err(minisign_verify::Error::InvalidSignature) => {
                    reason = Some(format!(
                        "the signature names the key {} but does not fit this content",
                        path.display()
                    ));
                }
                Err(e) => reason = Some(format!("the signature is refused: {e}")),
            }
        }
        Err(reason
            .unwrap_or_else(|| format!("signed by an unknown key; trusted are: {}", self.files())))
    }

    /// The files of the keys, for people.
    pub(crate) fn files(&self) -> String {
        let files: Vec<_> = self.keys.iter().map(|key| key.path.display().to_string()).collect();
        files.join(", ")
    }

    /// What tells files apart that these keys signed.
    pub(crate) fn marks(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.mark.as_str())
    }

    fn extend(&mut self, other: &Self) {
        self.keys.extend(other.keys.iter().cloned());
    }
}

impl fmt::Debug for TrustedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.path)).finish()
    }
}

/// A secret key, and the public keys whose earlier work it builds upon.
pub struct SigningKey {
    path: PathBuf,
    secret: SecretKey,
    mark: String,
    accepts: TrustedKeys,
}

impl SigningKey {
    /// Reads a minisign secret key without password.
    ///
    /// # Errors
    ///
    /// A file that others can read, that has a password, or that is no secret key.
    pub fn load(path: &Path) -> Result<Self, DepotError> {
        let fault = |reason: String| DepotError::Key { path: path.to_owned(), reason };
        let mode = path.metadata().map_err(DepotError::io("read the key", path))?.mode();
        if mode & 0o077 != 0 {
            let mode = mode & 0o777;
            return Err(fault(format!(
                "its mode is {mode:04o}, expected 0600: others can read it"
            )));
        }
        let text = read_key_file(path)?;
        let secret = SecretKeyBox::from_string(&text)
            .and_then(SecretKeyBox::into_unencrypted_secret_key)
            .map_err(|e| fault(format!("{e}; expected a minisign secret key without password")))?;
        let public = minisign::PublicKey::from_secret_key(&secret)
            .and_then(|key| key.to_box())
            .map_err(|e| fault(e.to_string()))?;
        let text = public.to_string();
        let key = PublicKey::decode(&text).map_err(|e| fault(e.to_string()))?;
        let mark = mark(&text);
        let accepts =
            TrustedKeys { keys: vec![Trusted { path: path.to_owned(), key, mark: mark.clone() }] };
        Ok(Self { path: path.to_owned(), secret, mark, accepts })
    }

    /// Builds also upon what these keys signed, where several operators have a key each. Without it
    /// only what this key signed itself is continued: a signature over an index vouches for every
    /// entry in it, those of others too.
    #[must_use]
    pub fn with_peers(mut self, peers: &TrustedKeys) -> Self {
        self.accepts.extend(peers);
        self
    }

    /// Whose signatures are continued: its own and its peers'.
    pub fn accepts(&self) -> &TrustedKeys {
        &self.accepts
    }

    /// What tells files apart that this key signed.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// minisign's four lines over `bytes`. `comment` is signed too and shown by `minisign -V`.
    pub(crate) fn sign(&self, bytes: &[u8], comment: &str) -> Result<String, DepotError> {
        minisign::sign(None, &self.secret, bytes, Some(comment), Some("signature of baton depot"))
            .map(|signature| signature.into_string())
            .map_err(|e| DepotError::Key { path: self.path.clone(), reason: e.to_string() })
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.path.display())
    }
}

/// Makes a key pair: `PATH.key` (mode 0600, no password) and `PATH.pub`, and returns both names.
///
/// # Errors
///
/// When one of the two is there already: a key is never overwritten.
pub fn keygen(path: &Path) -> Result<(PathBuf, PathBuf), DepotError> {
    let with = |extension: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(extension);
        PathBuf::from(name)
    };
    let (secret_path, public_path) = (with(".key"), with(".pub"));
    for path in [&secret_path, &public_path] {
        if path.symlink_metadata().is_ok() {
            let reason = "there already; a key is never overwritten".to_owned();
            return Err(DepotError::Key { path: path.clone(), reason });
        }
    }
    let fault = |e: minisign::PError| DepotError::Key {
        path: secret_path.clone(),
        reason: format!("no key could be made: {e}"),
    };
    let KeyPair { pk, sk } = KeyPair::generate_unencrypted_keypair().map_err(fault)?;
    let secret = sk.to_box(Some("baton depot secret key")).map_err(fault)?;
    let public = pk.to_box().map_err(fault)?;
    create(&secret_path, 0o600, &secret.to_string())?;
    if let Err(e) = create(&public_path, 0o644, &public.to_string()) {
        // Nothing half done; should this fail too, the error that led here says more.
        let _removed = fs::remove_file(&secret_path);
        return Err(e);
    }
    durable::sync_parent(&secret_path)?;
    Ok((secret_path, public_path))
}

/// Of the key itself, the second line of its file: whatever is written above it.
fn mark(text: &str) -> String {
    let key = text.lines().nth(1).unwrap_or_default().trim();
    let digest = Digest(Sha256::digest(key.as_bytes()).into()).to_string();
    digest.chars().take(MARK_CHARS).collect()
}

fn create(path: &Path, mode: u32, content: &str) -> Result<(), DepotError> {
    let doing = "write the key";
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(DepotError::io(doing, path))?;
    let content = format!("{}\n", content.trim_end());
    file.write_all(content.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(DepotError::io(doing, path))
}

fn read_key_file(path: &Path) -> Result<String, DepotError> {
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(KEY_FILE_MAX_BYTES + 1).read_to_end(&mut text))
        .map_err(DepotError::io("read the key", path))?;
    let fault = |reason: &str| DepotError::Key { path: path.to_owned(), reason: reason.to_owned() };
    if text.len() as u64 > KEY_FILE_MAX_BYTES {
        return Err(fault("larger than 4096 bytes, expected the two lines of a minisign key"));
    }
    String::from_utf8(text).map_err(|_| fault("not text, expected the two lines of a minisign key"))
}

/// Two keys of one group never fall together by chance.
const MARK_CHARS: usize = 16;

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_pair_signs_and_verifies_and_is_never_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let (secret, public) = keygen(&folder.path().join("depot")).expect("keys");
        assert!(secret.ends_with("depot.key") && public.ends_with("depot.pub"));
        assert_eq!(secret.metadata().expect("a file").mode() & 0o777, 0o600);
        let key = SigningKey::load(&secret).expect("a key");
        let trusted = TrustedKeys::load(std::slice::from_ref(&public)).expect("a key");
        let signature = key.sign(b"content", "about").expect("a signature");
        assert_eq!(trusted.verify(b"content", &signature), Ok(()));
        let changed = trusted.verify(b"Content", &signature).expect_err("changed");
        assert!(changed.contains("depot.pub but does not fit"), "{changed}");

        let error = keygen(&folder.path().join("depot")).expect_err("a second time");
        assert!(error.to_string().contains("depot.key: there already"), "{error}");
        fs::remove_file(&secret).expect("removed");
        let error = keygen(&folder.path().join("depot")).expect_err("a second time");
        assert!(error.to_string().contains("depot.pub: there already"), "{error}");
        assert!(!secret.exists());
    }

    #[test]
    fn wrong_key_files_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let (secret, public) = keygen(&folder.path().join("a")).expect("keys");
        let (_, other) = keygen(&folder.path().join("b")).expect("keys");
        let signature = SigningKey::load(&secret).expect("a key").sign(b"x", "").expect("signed");
        let trusted = TrustedKeys::load(&[other]).expect("a key");
        let unknown = trusted.verify(b"x", &signature).expect_err("unknown");
        assert!(unknown.contains("unknown key") && unknown.contains("b.pub"), "{unknown}");
        for damaged in ["", "a\nb\nc\nd", &signature[..60]] {
            assert!(trusted.verify(b"x", damaged).is_err(), "{damaged}");
        }

        let check = |result: Result<TrustedKeys, DepotError>, part: &str| {
            let error = result.expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        };
        check(TrustedKeys::load(&[]), "0 trusted keys");
        check(TrustedKeys::load(std::slice::from_ref(&secret)), "a secret key was found");
        check(TrustedKeys::load(&[folder.path().join("none.pub")]), "none.pub");
        fs::write(folder.path().join("big.pub"), vec![b'a'; 10_000]).expect("written");
        check(TrustedKeys::load(&[folder.path().join("big.pub")]), "larger than 4096");

        assert!(SigningKey::load(&public).is_err());
        fs::set_permissions(&secret, Permissions::from_mode(0o640)).expect("changed");
        let error = SigningKey::load(&secret).expect_err("readable by others").to_string();
        assert!(error.contains("0640, expected 0600"), "{error}");
    }
}
