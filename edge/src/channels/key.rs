//! The key of a session's data connections, and the preamble by which one is known
//! (docs/protocol.md, K-1 and P-2).

use crate::sys::random;
use std::io;

/// What every preamble begins with: K-1.
pub(super) const MAGIC: [u8; 8] = *b"FARLINE\x01";

/// Bytes of a preamble.
pub const PREAMBLE_LEN: usize = MAGIC.len() + blake3::OUT_LEN;

/// Bytes of the proof that goes under TLS.
pub const PROOF_LEN: usize = blake3::OUT_LEN;

/// 32 random bytes that client and node share for one session.
#[derive(Clone)]
pub struct Key([u8; 32]);

/// What a preamble carries: it tells which session a connection is of, and not what the key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(blake3::Hash);

impl Key {
    /// A fresh key.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn random() -> io::Result<Key> {
        let mut key = [0; 32];
        random::fill(&mut key)?;
        Ok(Key(key))
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Key> {
        blake3::Hash::from_hex(text).ok().map(|bytes| Key(*bytes.as_bytes()))
    }

    /// The key as 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// The token of the preamble.
    pub fn token(&self) -> Token {
        Token(self.derive("farline 2026 data connection preamble").into())
    }

    /// What begins every data connection.
    pub fn preamble(&self) -> [u8; PREAMBLE_LEN] {
        let mut preamble = [0; PREAMBLE_LEN];
        preamble[..MAGIC.len()].copy_from_slice(&MAGIC);
        preamble[MAGIC.len()..].copy_from_slice(self.token().0.as_bytes());
        preamble
    }

    /// What a client says first under TLS.
    pub fn proof(&self) -> [u8; PROOF_LEN] {
        self.derive("farline 2026 data connection under tls")
    }

    /// Whether `proof` is this key's; takes as long whatever differs.
    pub fn proves(&self, proof: [u8; PROOF_LEN]) -> bool {
        blake3::Hash::from(self.proof()) == proof
    }

    /// What shows, in the private data of a connection request, that one queue pair of one RDMA
    /// channel is the session's: V-3.
    pub fn proof_of_queue_pair(&self, channel: u32, queue_pair: u8) -> [u8; PROOF_LEN] {
        let mut hasher = blake3::Hasher::new_derive_key("farline 2026 rdma queue pair");
        hasher.update(&self.0).update(&channel.to_be_bytes()).update(&[queue_pair]);
        *hasher.finalize().as_bytes()
    }

    /// Whether `proof` is that of this key's queue pair; takes as long whatever differs.
    pub fn proves_queue_pair(&self, channel: u32, queue_pair: u8, proof: [u8; PROOF_LEN]) -> bool {
        blake3::Hash::from(self.proof_of_queue_pair(channel, queue_pair)) == proof
    }

    /// By which number a connection over UDT, whose end at the client has this name, begins to
    /// count its packets: that it is the session's is known with its handshake, a round trip before
    /// its preamble (U-3).
    pub fn first_packet(&self, end: u32) -> u32 {
        let mut hasher = blake3::Hasher::new_derive_key("farline 2026 udt first packet");
        hasher.update(&self.0).update(&end.to_be_bytes());
        let [a, b, c, d, ..] = *hasher.finalize().as_bytes();
        u32::from_be_bytes([a, b, c, d])
    }

    fn derive(&self, context: &str) -> [u8; blake3::OUT_LEN] {
        blake3::derive_key(context, &self.0)
    }
}

impl Token {
    /// The token in a preamble; `None` when it is none.
    pub fn of(preamble: &[u8; PREAMBLE_LEN]) -> Option<Token> {
        let token = preamble.strip_prefix(&MAGIC)?;
        Some(Token(blake3::Hash::from_slice(token).ok()?))
    }

    /// Whether these bytes may be the beginning of a preamble.
    pub fn may_begin_with(bytes: &[u8]) -> bool {
        let len = bytes.len().min(MAGIC.len());
        bytes[..len] == MAGIC[..len]
    }
}

impl std::fmt::Debug for Key {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preamble_names_its_key_and_does_not_tell_it() {
        let key = Key::random().expect("random bytes");
        let other = Key::random().expect("random bytes");
        assert_eq!(Key::from_hex(&key.to_hex()).expect("hexadecimal").0, key.0);
        assert_eq!(Token::of(&key.preamble()), Some(key.token()));
        assert_ne!(key.token(), other.token());
        assert!(!key.preamble().windows(32).any(|window| window == key.0 || window == key.proof()));
        assert!(key.proves(key.proof()) && !other.proves(key.proof()));
        let proof = key.proof_of_queue_pair(1, 2);
        assert!(key.proves_queue_pair(1, 2, proof) && !other.proves_queue_pair(1, 2, proof));
        assert!(!key.proves_queue_pair(2, 2, proof) && !key.proves_queue_pair(1, 3, proof));
        assert_eq!(key.first_packet(1), key.first_packet(1));
        assert!(![key.first_packet(2), other.first_packet(1)].contains(&key.first_packet(1)));
        let mut damaged = key.preamble();
        damaged[7] ^= 1;
        assert_eq!(Token::of(&damaged), None);
        assert!(
            Token::may_begin_with(b"FAR")
                && !Token::may_begin_with(b"USER")
                && Token::may_begin_with(b"")
        );
        for text in ["", "00", &"g".repeat(64), &"0".repeat(65)] {
            assert!(Key::from_hex(text).is_none(), "{text}");
        }
    }
}
