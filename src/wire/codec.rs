//! Canonical bytes: one way to write a value, and nothing else is read.
//!
//! Whole numbers are big-endian and of fixed width, texts have one length byte or two, there is no padding inside and
//! nothing optional that is not announced. A reader never allocates more than the bytes that it was given.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The bytes are not what they should be. Strangers get silence, so there is no more to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed")]
pub struct Malformed;

/// What nearly everything that is written fits into: a datagram and what is signed before it.
const ROOM: usize = 1280;

/// Writes values one after the other.
#[derive(Debug)]
pub struct Writer(Vec<u8>);

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// Nothing written yet.
    pub fn new() -> Self {
        Self(Vec::with_capacity(ROOM))
    }

    /// What was written.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    /// How much was written.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// So many zeros.
    pub fn zeros(&mut self, count: usize) {
        self.0.resize(self.0.len().saturating_add(count), 0);
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    /// Two bytes.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Two bytes of length and the text, which is cut at 65,535 bytes.
    pub fn text(&mut self, text: &str) -> &mut Self {
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        self.u16(length);
        let bytes = text.as_bytes();
        self.bytes(bytes.get(..usize::from(length)).unwrap_or(bytes))
    }

    /// One byte of count, then each. More than 255 are written all the same, and then no reader takes them.
    pub fn list<T>(&mut self, items: &[T], write: impl Fn(&T, &mut Self)) {
        self.u8(u8::try_from(items.len()).unwrap_or(u8::MAX));
        for item in items {
            write(item, self);
        }
    }

    /// An internet address: 4 or 6, the address, the port.
    pub fn address(&mut self, address: SocketAddr) -> &mut Self {
        match address.ip() {
            IpAddr::V4(ip) => self.u8(4).bytes(&ip.octets()),
            IpAddr::V6(ip) => self.u8(6).bytes(&ip.octets()),
        };
        self.u16(address.port())
    }
}

/// Reads values one after the other.
#[derive(Clone, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Nothing read yet.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Everything must have been read.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*bytes)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// A text of at most `limit` bytes, without control characters.
    pub fn text(&mut self, limit: usize) -> Result<String, Malformed> {
        let length = usize::from(self.u16()?);
        if length > limit {
            return Err(Malformed);
        }
        let text = std::str::from_utf8(self.bytes(length)?).map_err(|_| Malformed)?;
        if text.chars().any(char::is_control) {
            return Err(Malformed);
        }
        Ok(text.to_owned())
    }

    /// A list of at most `limit` values.
    pub fn list<T>(
        &mut self,
        limit: usize,
        read: impl Fn(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = usize::from(self.u8()?);
        if count > limit {
            return Err(Malformed);
        }
        (0..count).map(|_| read(self)).collect()
    }

    /// An internet address. An IPv4 address in IPv6 clothes has another encoding, so it is refused.
    pub fn address(&mut self) -> Result<SocketAddr, Malformed> {
        let ip = match self.u8()? {
            4 => IpAddr::V4(Ipv4Addr::from(self.array::<4>()?)),
            6 => {
                let ip = Ipv6Addr::from(self.array::<16>()?);
                if ip.to_ipv4_mapped().is_some() {
                    return Err(Malformed);
                }
                IpAddr::V6(ip)
            }
            _ => return Err(Malformed),
        };
        Ok(SocketAddr::new(ip, self.u16()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut writer = Writer::new();
        let (v4, v6) = ("127.0.0.1:7433".parse().unwrap(), "[2001:db8::1]:1".parse().unwrap());
        writer.u8(1).u16(2).u32(3).u64(4).text("lab-a").address(v4).address(v6);
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.u8(), reader.u16(), reader.u32(), reader.u64()), (Ok(1), Ok(2), Ok(3), Ok(4)));
        assert_eq!(reader.text(5), Ok("lab-a".to_owned()));
        assert_eq!((reader.address(), reader.address()), (Ok(v4), Ok(v6)));
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn too_little_too_much_and_nonsense_are_malformed() {
        assert_eq!(Reader::new(&[0; 7]).u64(), Err(Malformed));
        assert_eq!(Reader::new(&[0]).finish(), Err(Malformed));
        assert_eq!(Reader::new(b"\0\x05lab-a").text(4), Err(Malformed), "longer than allowed");
        assert_eq!(Reader::new(b"\0\x03a\x1bb").text(9), Err(Malformed), "an escape");
        assert_eq!(Reader::new(b"\0\x02\xff\xff").text(9), Err(Malformed), "no UTF-8");
        assert_eq!(Reader::new(&[5, 0, 0, 0, 0, 0, 0]).address(), Err(Malformed), "no such family");
        let mut mapped = vec![6];
        mapped.extend("::ffff:127.0.0.1".parse::<Ipv6Addr>().unwrap().octets());
        mapped.extend([0, 80]);
        assert_eq!(Reader::new(&mapped).address(), Err(Malformed), "two ways to write one address");
    }
}
