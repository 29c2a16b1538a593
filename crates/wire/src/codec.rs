//! Values to bytes and back; the one place that names the encoding.
//!
//! Invariant: decoding reads at most the bytes it was given and allocates no more than a small
//! multiple of them. Bytes that are left over are refused, but where a newer build may have added
//! them.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Versions;
use crate::limits::FRAME_MAX_BYTES;

/// Why bytes could not be decoded, or a value not encoded. No state changed; the peer (or the
/// disk) that gave the bytes is at fault.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// Not an encoding of the type that was asked for.
    #[error("bytes do not decode as {kind}: {cause}")]
    Decode {
        /// The type that was expected.
        kind: &'static str,
        /// What the decoder says.
        cause: bincode::error::DecodeError,
    },
    /// Bytes follow the value.
    #[error("{left} bytes follow the encoding of {kind}")]
    Trailing {
        /// The type that was decoded.
        kind: &'static str,
        /// How many.
        left: usize,
    },
    /// A message is longer than what is left of its envelope.
    #[error("a message of {length} bytes in the last {left} bytes of an envelope")]
    Cut {
        /// The length that stands in front of it.
        length: usize,
        /// What there is.
        left: usize,
    },
    /// More messages than an honest sender puts into one envelope.
    #[error("an envelope of more than {} messages", crate::envelope::MESSAGES_MAX)]
    TooMany,
    /// A version that this build does not speak.
    #[error("{kind} in version {found} of the wire: {known} is known here")]
    Version {
        /// What it was to be.
        kind: &'static str,
        /// The version that it names.
        found: u8,
        /// What is known.
        known: Versions,
    },
    /// More than a frame can carry.
    #[error("an envelope of {found} bytes: at most {FRAME_MAX_BYTES} are allowed")]
    TooLarge {
        /// Its size.
        found: usize,
    },
    /// The value is too large for any frame.
    #[error("cannot encode {kind}: {cause}")]
    Encode {
        /// The type that was to be encoded.
        kind: &'static str,
        /// What the encoder says.
        cause: bincode::error::EncodeError,
    },
}

/// Encodes `value`.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    bincode::serde::encode_to_vec(value, CONFIGURATION)
        .map_err(|cause| CodecError::Encode { kind: std::any::type_name::<T>(), cause })
}

/// Decodes exactly one value from all of `bytes`.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    match decode_first(bytes)? {
        (value, []) => Ok(value),
        (_, left) => {
            Err(CodecError::Trailing { kind: std::any::type_name::<T>(), left: left.len() })
        }
    }
}

/// Decodes a value that a newer build may have made longer: what follows it is not looked at.
pub fn decode_grown<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    decode_first(bytes).map(|(value, _)| value)
}

/// Decodes the value at the beginning of `bytes`, and gives what is left of them.
pub(crate) fn decode_first<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), CodecError> {
    let kind = std::any::type_name::<T>();
    let (value, read) = bincode::serde::decode_from_slice(bytes, CONFIGURATION)
        .map_err(|cause| CodecError::Decode { kind, cause })?;
    Ok((value, &bytes[read..]))
}

/// How many bytes `value` takes, without keeping them; `usize::MAX` for one that cannot be
/// encoded, so that it never fits a budget.
pub fn encoded_len<T: Serialize>(value: &T) -> usize {
    let mut counter = Counter(0);
    match bincode::serde::encode_into_writer(value, &mut counter, CONFIGURATION) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

struct Counter(usize);

impl bincode::enc::write::Writer for Counter {
    fn write(&mut self, bytes: &[u8]) -> Result<(), bincode::error::EncodeError> {
        self.0 += bytes.len();
        Ok(())
    }
}

/// bincode's standard form: little endian, variable-length integers; with the limit that makes a
/// forged length an error before memory is taken for it.
const CONFIGURATION: Configuration<LittleEndian, Varint, Limit<FRAME_MAX_BYTES>> =
    bincode::config::standard().with_limit::<FRAME_MAX_BYTES>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_reads_back_and_its_length_is_known() {
        let value = (7u64, "text".to_owned(), vec![1u8, 2, 3]);
        let bytes = encode(&value).expect("encodes");
        assert_eq!(bytes.len(), encoded_len(&value));
        assert_eq!(decode::<(u64, String, Vec<u8>)>(&bytes).expect("decodes"), value);
    }

    #[test]
    fn golden_bytes_of_the_first_format() {
        assert_eq!(
            encode(&(1u8, 300u32, "ab", Some(2u8))).expect("encodes"),
            [1, 251, 44, 1, 2, b'a', b'b', 1, 2]
        );
    }

    #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
    enum Before {
        Said { number: u64 },
    }

    #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
    enum Now {
        Said {
            number: u64,
            #[serde(deserialize_with = "if_there")]
            why: Option<String>,
            #[serde(deserialize_with = "if_there")]
            times: u32,
        },
    }

    /// The value, or its default where the bytes of an older build end.
    fn if_there<'de, D, T>(deserializer: D) -> Result<T, D::Error>
    where
        D: serde::Deserializer<'de>,
        T: serde::Deserialize<'de> + Default,
    {
        Ok(T::deserialize(deserializer).unwrap_or_default())
    }

    #[test]
    fn a_field_added_at_the_end() {
        let before = encode(&Before::Said { number: 7 }).expect("encodes");
        let read = decode_grown::<Now>(&before).expect("reads the older one");
        assert_eq!(read, Now::Said { number: 7, why: None, times: 0 });
        let now = Now::Said { number: 7, why: Some("so".to_owned()), times: 300 };
        let bytes = encode(&now).expect("encodes");
        assert_eq!(decode_grown::<Now>(&bytes).expect("reads its own"), now);
        let read = decode_grown::<Before>(&bytes).expect("reads the newer one");
        assert_eq!(read, Before::Said { number: 7 });
        assert!(decode::<Before>(&bytes).is_err(), "only where it may have grown");
    }

    #[test]
    fn left_over_short_and_forged_bytes_are_refused() {
        let mut bytes = encode(&"abc").expect("encodes");
        bytes.push(0);
        assert!(matches!(decode::<String>(&bytes), Err(CodecError::Trailing { left: 1, .. })));
        assert!(matches!(decode::<String>(&bytes[..2]), Err(CodecError::Decode { .. })));
        assert!(decode::<String>(&[]).is_err());
        // A length of 2^64 - 1 in front of three bytes.
        let forged = [253, 255, 255, 255, 255, 255, 255, 255, 255, 1, 2, 3];
        assert!(decode::<Vec<u8>>(&forged).is_err());
        assert!(decode::<Vec<(u64, u64)>>(&forged).is_err());
    }
}
