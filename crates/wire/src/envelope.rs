//! The envelope around messages: a head that every build can read, and messages that each may skip.
//!
//! Invariant: the head's layout never changes. A message that does not decode costs no other one of
//! its envelope; a length that leads outside of the bytes costs the whole.

use baton_types::{BootNonce, NodeId};
use serde::{Deserialize, Serialize};

use crate::codec::{self, CodecError};
use crate::limits::FRAME_MAX_BYTES;
use crate::{Message, Versions};

/// What stands in front of the messages, in every version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Who sends it; authenticated together with the content.
    pub sender: NodeId,
    /// The sender's start, so that an answer to an earlier life is recognized.
    pub boot: BootNonce,
    /// Rises with every datagram of that start, for the replay window; 0 on a stream.
    pub counter: u64,
    /// What the sender speaks.
    pub versions: Versions,
    /// What this envelope is in.
    pub version: u8,
}

/// What one datagram or one stream frame carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Who sends it, and how.
    pub head: Head,
    /// In order; a receiver handles them one after the other. None: only the head is to be heard.
    pub messages: Vec<Message>,
}

/// What a build makes of an envelope's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its head, and the messages that this build knows; none of a version that it does not speak.
    pub envelope: Envelope,
    /// Messages that did not decode: those of a newer build.
    pub skipped: u64,
}

impl Envelope {
    /// Its bytes. All versions that this build speaks have one layout so far; `head.version` decides
    /// once they differ.
    ///
    /// # Errors
    ///
    /// More than a frame can carry.
    pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
        let frames: Result<Vec<_>, _> = self.messages.iter().map(codec::encode).collect();
        pack(&self.head, &frames?)
    }

    /// Reads `bytes` as a build that speaks `ours`.
    ///
    /// # Errors
    ///
    /// No head, a length that leads outside, or more messages than [`MESSAGES_MAX`]. The sender is
    /// at fault.
    pub fn decode(bytes: &[u8], ours: Versions) -> Result<Opened, CodecError> {
        let (head, frames) = unpack(bytes)?;
        let mut opened = Opened { envelope: Self { head, messages: Vec::new() }, skipped: 0 };
        if !ours.speaks(head.version) {
            return Ok(opened);
        }
        for (number, frame) in frames.enumerate() {
            if number >= MESSAGES_MAX {
                return Err(CodecError::TooMany);
            }
            match codec::decode_grown(frame?) {
                Ok(message) => opened.envelope.messages.push(message),
                Err(_) => opened.skipped += 1,
            }
        }
        Ok(opened)
    }
}

/// An envelope's bytes around messages that are encoded already.
///
/// # Errors
///
/// More than a frame can carry.
pub fn pack(head: &Head, frames: &[Vec<u8>]) -> Result<Vec<u8>, CodecError> {
    let mut bytes = codec::encode(head)?;
    for frame in frames {
        bytes.extend(codec::encode(&frame.len())?);
        bytes.extend_from_slice(frame);
    }
    match bytes.len() {
        found if found > FRAME_MAX_BYTES => Err(CodecError::TooLarge { found }),
        _ => Ok(bytes),
    }
}

/// The head of an envelope, and its messages as bytes.
///
/// # Errors
///
/// No head.
pub fn unpack(bytes: &[u8]) -> Result<(Head, Frames<'_>), CodecError> {
    let (head, left) = codec::decode_first(bytes)?;
    Ok((head, Frames { left }))
}

/// The messages of an envelope as bytes, one after the other.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    left: &'a [u8],
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<&'a [u8], CodecError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() {
            return None;
        }
        // Whatever is wrong, nothing can be found behind it.
        let left = std::mem::take(&mut self.left);
        let (length, left) = match codec::decode_first::<usize>(left) {
            Ok(read) => read,
            Err(cause) => return Some(Err(cause)),
        };
        let Some((frame, left)) = left.split_at_checked(length) else {
            return Some(Err(CodecError::Cut { length, left: left.len() }));
        };
        self.left = left;
        Some(Ok(frame))
    }
}

/// Most messages of an envelope: several for each member of the largest ring and each of its facts.
/// A message takes many times more memory than the few bytes that the shortest one has.
pub const MESSAGES_MAX: usize = 1 << 16;

/// Bytes that a message of `length` bytes takes in an envelope.
pub fn framed_len(length: usize) -> usize {
    length.saturating_add(codec::encoded_len(&length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RingMessage;
    use crate::ring::Way;

    fn head(version: u8) -> Head {
        Head {
            sender: NodeId::from_random(2),
            boot: BootNonce::from_random(3),
            counter: 300,
            versions: Versions::new(1, 2).expect("a range"),
            version,
        }
    }

    fn nack(number: u64) -> Message {
        Message::Ring(RingMessage::Nack { number })
    }

    fn open(bytes: &[u8]) -> Opened {
        Envelope::decode(bytes, Versions::OURS).expect("an envelope")
    }

    #[test]
    fn reads_back_and_only_the_head_of_another_version() {
        let envelope = Envelope { head: head(1), messages: vec![nack(1), nack(2)] };
        let bytes = envelope.encode().expect("encodes");
        assert_eq!(open(&bytes), Opened { envelope, skipped: 0 });
        let envelope = Envelope { head: head(2), messages: vec![nack(1)] };
        let bytes = envelope.encode().expect("encodes");
        let opened = open(&bytes);
        assert_eq!((opened.envelope.head, opened.skipped), (head(2), 0));
        assert_eq!(opened.envelope.messages, [], "nothing of it is believed");
        let newer = Envelope::decode(&bytes, Versions::new(1, 2).expect("a range"));
        assert_eq!(newer.expect("an envelope").envelope, envelope);
    }

    #[test]
    fn what_a_newer_build_adds_costs_nothing_else() {
        let known = |number| codec::encode(&nack(number)).expect("encodes");
        let grown = [known(1), vec![0; 9]].concat();
        // A protocol, and a message of the ring, that nobody knows yet; and one without any bytes.
        let frames = [vec![77, 1, 2], grown, vec![0, 99, 5], Vec::new(), known(2)];
        let opened = open(&pack(&head(1), &frames).expect("packs"));
        assert_eq!(opened.envelope.messages, [nack(1), nack(2)]);
        assert_eq!(opened.skipped, 3);
    }

    #[test]
    fn lengths_that_lead_outside_and_cut_heads_are_errors() {
        let bytes = pack(&head(1), &[codec::encode(&nack(1)).expect("encodes")]).expect("packs");
        for length in 0..bytes.len() {
            let cut = Envelope::decode(&bytes[..length], Versions::OURS);
            // Without its messages it is an envelope, too.
            let is_head = length == codec::encoded_len(&head(1));
            assert_eq!(cut.is_ok(), is_head, "{length} bytes");
        }
        let mut endless = codec::encode(&head(1)).expect("encodes");
        endless.extend([253, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
        assert!(Envelope::decode(&endless, Versions::OURS).is_err());
        let most = vec![vec![0, 99]; MESSAGES_MAX + 1];
        let bytes = pack(&head(1), &most[1..]).expect("packs");
        assert_eq!(open(&bytes).skipped, MESSAGES_MAX as u64);
        let bytes = pack(&head(1), &most).expect("packs");
        let many = Envelope::decode(&bytes, Versions::OURS);
        assert!(matches!(many, Err(CodecError::TooMany)), "{many:?}");
        let huge = vec![0; FRAME_MAX_BYTES];
        assert!(matches!(pack(&head(1), &[huge]), Err(CodecError::TooLarge { .. })));
    }

    #[test]
    fn an_idle_ping_has_three_bytes_more_than_without_versions() {
        let (number, target, digest) = (9, NodeId::from_random(1), u64::MAX);
        let ping = RingMessage::Ping { number, target, digest, way: Way::Datagram };
        let envelope = Envelope { head: head(1), messages: vec![Message::Ring(ping)] };
        let bytes = envelope.encode().expect("encodes").len();
        // Sender, boot, counter, how many messages, the message.
        let before = 16 + 16 + 3 + 1 + codec::encoded_len(&envelope.messages[0]);
        assert_eq!(bytes, before + 3);
        assert_eq!(bytes, codec::encoded_len(&head(1)) + framed_len(29));
        assert_eq!([framed_len(250), framed_len(251)], [251, 254]);
    }
}
