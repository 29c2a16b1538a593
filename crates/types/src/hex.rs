//! Lower-case hexadecimal, the one way in which Baton writes random ids and digests.

/// Writes `bytes` as lower-case hexadecimal, two characters a byte.
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Reads exactly `N` bytes of hexadecimal; `None` on any other length or character.
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != N * 2 {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_reads_back() {
        assert_eq!(encode(&[0, 0xa5, 0xff]), "00a5ff");
        assert_eq!(decode::<3>("00A5ff"), Some([0, 0xa5, 0xff]));
        assert_eq!(decode::<3>("00a5f"), None);
        assert_eq!(decode::<2>("00a5ff"), None);
        assert_eq!(decode::<1>("0g"), None);
        assert_eq!(decode::<1>("+1"), None);
    }
}
