//! Sealed packets: XChaCha20-Poly1305 under a key that the whole ring shares.
//!
//! Invariant: bytes that were not sealed under one of our keys, for this context, change nothing
//! and are answered by nothing. Keys never appear in `Debug`, errors or logs.
//!
//! A packet is `version, mode, key id (4), nonce (24), ciphertext and tag`; version, mode, key id
//! and the context are authenticated with it. The context binds stream frames to their connection
//! and place, so that a recorded stream cannot be played again. In plain mode (loopback, or
//! `insecure = true`) it is `version, mode, content`.

use std::fmt;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use sha2::{Digest as _, Sha256};

use crate::limits::KEYS_MAX;
use baton_types::hex;

/// One secret of the ring: 256 bits.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// The key made of 32 random bytes that the caller drew.
    pub const fn from_random(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key as a line of a key file: 64 hexadecimal digits. The one way in which a key leaves.
    pub fn to_line(&self) -> String {
        hex::encode(&self.0)
    }

    /// What tells keys apart without telling anything about them: the first four bytes of a hash.
    pub fn id(&self) -> KeyId {
        let mut hash = Sha256::new();
        hash.update(b"baton ring key id");
        hash.update(self.0);
        let digest = hash.finalize();
        KeyId([digest[0], digest[1], digest[2], digest[3]])
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id())
    }
}

/// Names a key; safe to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId([u8; 4]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

/// What is wrong with the text of a key file. Never quotes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// A line that is no key.
    #[error("line {line}: not a key: expected 64 hexadecimal digits, found {length} characters")]
    NotAKey {
        /// Counted from 1.
        line: usize,
        /// Of the line.
        length: usize,
    },
    /// No key at all.
    #[error("no key: expected a line of 64 hexadecimal digits, as `baton ring keygen` writes it")]
    Empty,
    /// More keys than a ring ever needs.
    #[error("{0} keys: at most {KEYS_MAX} are allowed")]
    TooMany(usize),
    /// The same key twice.
    #[error("line {line}: the same key a second time")]
    Twice {
        /// Counted from 1.
        line: usize,
    },
}

/// How packets are protected: the first key seals, every key opens.
#[derive(Clone, Debug)]
pub enum Sealing {
    /// No protection: loopback, or `insecure = true`.
    Plain,
    /// At least one key.
    Keys(KeyRing),
}

/// At least one key; the first one is used to send.
#[derive(Clone, Debug)]
pub struct KeyRing(Vec<Key>);

impl KeyRing {
    /// A key ring of one.
    pub fn of(key: Key) -> Self {
        Self(vec![key])
    }

    /// Reads a key file: one key a line; empty lines and lines that start with `#` do not count.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        let mut keys: Vec<Key> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), at + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = hex::decode(line)
                .map(Key)
                .ok_or(KeyFileError::NotAKey { line: number, length: line.chars().count() })?;
            if keys.contains(&key) {
                return Err(KeyFileError::Twice { line: number });
            }
            keys.push(key);
        }
        match keys.len() {
            0 => Err(KeyFileError::Empty),
            1..=KEYS_MAX => Ok(Self(keys)),
            many => Err(KeyFileError::TooMany(many)),
        }
    }

    /// The ids, the sending key's first.
    pub fn ids(&self) -> Vec<KeyId> {
        self.0.iter().map(Key::id).collect()
    }
}

/// Why a packet was dropped. The sender, or the line between, is at fault; no state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Too short to be a packet at all.
    #[error("a packet of {0} bytes is too short")]
    Short(usize),
    /// Another format version.
    #[error("packet format {found} is not known: this is format {FORMAT}")]
    Format {
        /// The version that the packet names.
        found: u8,
    },
    /// Plain where sealed is demanded, or the other way round.
    #[error("{}", if *.sealed { "a sealed packet, but this node has no key_file" } else { "an unsealed packet, but this ring has a key" })]
    Mode {
        /// Whether the packet is sealed.
        sealed: bool,
    },
    /// Sealed under a key that this node does not have.
    #[error("sealed under key {0}, which this node does not have")]
    UnknownKey(KeyId),
    /// Changed on the way, forged, or replayed in another place.
    #[error("a packet that does not decrypt")]
    Forged,
}

impl Sealing {
    /// Seals `content` for `context` under the sending key. `nonce` must be random for every
    /// packet: with 192 bits a repeat is out of the question.
    pub fn seal(&self, nonce: [u8; 24], context: &[u8], content: &[u8]) -> Vec<u8> {
        let Self::Keys(ring) = self else {
            return [&[FORMAT, PLAIN], content].concat();
        };
        let key = &ring.0[0];
        let mut packet = Vec::with_capacity(OVERHEAD_BYTES + content.len());
        packet.extend_from_slice(&[FORMAT, SEALED]);
        packet.extend_from_slice(&key.id().0);
        packet.extend_from_slice(&nonce);
        let aad = [&packet[..HEAD_BYTES], context].concat();
        let payload = Payload { msg: content, aad: &aad };
        let cipher = XChaCha20Poly1305::new((&key.0).into());
        match cipher.encrypt(&XNonce::from(nonce), payload) {
            Ok(sealed) => packet.extend_from_slice(&sealed),
            // Only a content of more than 256 GiB fails; an empty packet is dropped by its reader.
            Err(_) => packet.clear(),
        }
        packet
    }

    /// The content of `packet`, if it was sealed for `context` under one of our keys.
    pub fn open(&self, context: &[u8], packet: &[u8]) -> Result<Vec<u8>, OpenError> {
        let [format, mode, rest @ ..] = packet else {
            return Err(OpenError::Short(packet.len()));
        };
        if *format != FORMAT {
            return Err(OpenError::Format { found: *format });
        }
        match (self, *mode) {
            (Self::Plain, PLAIN) => Ok(rest.to_vec()),
            (Self::Keys(ring), SEALED) => open_sealed(ring, context, packet),
            (_, mode) => Err(OpenError::Mode { sealed: mode == SEALED }),
        }
    }
}

fn open_sealed(ring: &KeyRing, context: &[u8], packet: &[u8]) -> Result<Vec<u8>, OpenError> {
    if packet.len() < OVERHEAD_BYTES {
        return Err(OpenError::Short(packet.len()));
    }
    let (head, body) = packet.split_at(HEAD_BYTES);
    let id = KeyId([head[2], head[3], head[4], head[5]]);
    let (nonce, sealed) = body.split_at(NONCE_BYTES);
    let nonce = XNonce::try_from(nonce).map_err(|_| OpenError::Short(packet.len()))?;
    let aad = [head, context].concat();
    let mut known = false;
    for key in ring.0.iter().filter(|key| key.id() == id) {
        known = true;
        let cipher = XChaCha20Poly1305::new((&key.0).into());
        if let Ok(content) = cipher.decrypt(&nonce, Payload { msg: sealed, aad: &aad }) {
            return Ok(content);
        }
    }
    Err(if known { OpenError::Forged } else { OpenError::UnknownKey(id) })
}

/// Version of the packet format.
const FORMAT: u8 = 1;
const PLAIN: u8 = 0;
const SEALED: u8 = 1;
const HEAD_BYTES: usize = 6;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// What sealing adds to a content, in bytes.
pub const OVERHEAD_BYTES: usize = HEAD_BYTES + NONCE_BYTES + TAG_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(seeds: &[u8]) -> Sealing {
        Sealing::Keys(KeyRing(seeds.iter().map(|seed| Key([*seed; 32])).collect()))
    }

    #[test]
    fn opens_what_was_sealed_under_any_of_its_keys() {
        let packet = keys(&[1]).seal([9; 24], b"context", b"content");
        assert_eq!(packet.len(), OVERHEAD_BYTES + 7);
        assert_eq!(keys(&[2, 1]).open(b"context", &packet), Ok(b"content".to_vec()));
        assert_eq!(
            Sealing::Plain.open(b"", &Sealing::Plain.seal([0; 24], b"", b"x")),
            Ok(vec![b'x'])
        );
    }

    #[test]
    fn golden_packet_of_format_1() {
        let packet = keys(&[1]).seal([2; 24], b"", b"baton");
        assert_eq!(
            hex::encode(&packet),
            include_str!("../golden/sealed-1.hex").trim(),
            "the packet format changed: give it a new version byte"
        );
    }

    #[test]
    fn everything_else_is_refused_and_named() {
        let packet = keys(&[1]).seal([9; 24], b"here", b"content");
        let check = |sealing: &Sealing, context: &[u8], packet: &[u8], want: OpenError| {
            assert_eq!(sealing.open(context, packet), Err(want));
        };
        check(&keys(&[1]), b"there", &packet, OpenError::Forged);
        check(&keys(&[2]), b"here", &packet, OpenError::UnknownKey(Key([1; 32]).id()));
        check(&Sealing::Plain, b"here", &packet, OpenError::Mode { sealed: true });
        check(&keys(&[1]), b"", &[FORMAT, PLAIN, 0], OpenError::Mode { sealed: false });
        check(&keys(&[1]), b"", &[7, SEALED, 0], OpenError::Format { found: 7 });
        check(&keys(&[1]), b"", &[], OpenError::Short(0));
        check(&keys(&[1]), b"", &[1], OpenError::Short(1));
        check(&keys(&[1]), b"here", &packet[..OVERHEAD_BYTES - 1], OpenError::Short(45));
        for at in 6..packet.len() {
            let mut changed = packet.clone();
            changed[at] ^= 1;
            check(&keys(&[1]), b"here", &changed, OpenError::Forged);
        }
    }

    #[test]
    fn key_files_are_read_and_faults_named_without_the_key() {
        let line = Key([3; 32]).to_line();
        assert_eq!(KeyRing::parse(&format!("# ring\n\n{line}\n")).map(|r| r.ids().len()), Ok(1));
        let check = |text: &str, want: KeyFileError| {
            assert_eq!(KeyRing::parse(text).map(|_| ()), Err(want));
        };
        check("", KeyFileError::Empty);
        check("abc", KeyFileError::NotAKey { line: 1, length: 3 });
        check(&format!("{line}\n{line}"), KeyFileError::Twice { line: 2 });
    }

    #[test]
    fn a_key_never_shows_itself() {
        let key = Key([0xab; 32]);
        let shown = format!("{key:?} {:?}", Sealing::Keys(KeyRing::of(key.clone())));
        assert!(!shown.contains("abab"), "{shown}");
    }
}
