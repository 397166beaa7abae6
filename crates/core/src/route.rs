//! Longest-prefix routing: which domain owns a key.
//!
//! The prefixes form one byte trie, laid out as a dense table of states by byte classes (bytes that occur in no prefix
//! share class 0, which leads nowhere). Walking it costs one table read a byte, at most the longest prefix plus one,
//! whatever the number of prefixes. Every state knows the longest prefix that ends on its path, so the walk never backs up.
//!
//! ```text
//! prefixes  "up:" "u"           classes  u=1 p=2 :=3 rest=0
//!
//! row       class 0  u  p  :    longest prefix that ends here or before
//! 0  ""        -     1  -  -    none
//! 1  "u"       -     -  2  -    "u"
//! 2  "up"      -     -  -  3    "u"
//! 3  "up:"     -     -  -  -    "up:"
//! ```
//!
//! Invariant: the answer depends on the set of prefixes only, never on their order. A key that matches nothing goes to the
//! fallback, which depends on the key alone, so every process agrees.

use crate::hash::hash64;
use crate::slot::{SLOTS, slot};
use md5::{Digest, Md5};
use std::fmt;

/// Domain of a route when nothing matched and the fallback rejects; also the bound of domain indices.
pub const DOMAIN_NONE: u16 = 0x3ff;

const NOWHERE: u32 = u32::MAX;
const NO_PREFIX: u32 = u32::MAX;

/// Where keys without a prefix go. Domains are indices below [`DOMAIN_NONE`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fallback {
    /// Nowhere: the route's domain is [`DOMAIN_NONE`].
    Reject,
    /// Always to one domain.
    Domain(u16),
    /// By rendezvous hashing (Thaler and Ravishankar, 1998): a slot belongs to the domain whose name scores highest, so
    /// that adding one of n domains moves about 1/(n+1) of the slots, all of them to the new one.
    Hash(Vec<(u16, String)>),
    /// The key's MD5, as a big-endian integer, modulo the number of domains.
    Md5Modulo(Vec<u16>),
}

/// Why a router cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouterError {
    /// Two prefixes are the same bytes; the index of the second.
    DuplicatePrefix(usize),
    /// A domain index is not below [`DOMAIN_NONE`].
    DomainRange(u16),
    /// A fallback over domains lists none.
    NoDomains,
}

impl fmt::Display for RouterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicatePrefix(index) => write!(f, "prefix {index} is a duplicate"),
            Self::DomainRange(domain) => write!(f, "domain {domain} is not below {DOMAIN_NONE}"),
            Self::NoDomains => write!(f, "the fallback lists no domain"),
        }
    }
}

impl std::error::Error for RouterError {}

/// A key's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Cluster slot, 0 to 16,383.
    pub slot: u16,
    /// Index of the domain, or [`DOMAIN_NONE`].
    pub domain: u16,
    /// Index of the longest matching prefix.
    pub prefix: Option<u32>,
}

#[derive(Debug)]
enum Unmatched {
    Reject,
    Domain(u16),
    BySlot(Box<[u16; SLOTS]>),
    Md5Modulo(Box<[u16]>),
}

/// The compiled table. Immutable; share it freely.
#[derive(Debug)]
pub struct Router {
    classes: [u16; 256],
    /// `next[state + class]`; a state is the offset of its row.
    next: Box<[u32]>,
    /// `longest[state / width]`.
    longest: Box<[u32]>,
    width: u32,
    domains: Box<[u16]>,
    unmatched: Unmatched,
}

impl Router {
    /// Compiles `prefixes` (each with its domain) and `fallback`.
    ///
    /// # Errors
    /// [`RouterError`], when a prefix is given twice, a domain index is out of range, or the fallback has no domains.
    pub fn new(prefixes: &[(&[u8], u16)], fallback: &Fallback) -> Result<Self, RouterError> {
        for &(_, domain) in prefixes {
            check_domain(domain)?;
        }
        let mut classes = [0u16; 256];
        let mut width = 1u32;
        for &byte in prefixes.iter().flat_map(|(prefix, _)| *prefix) {
            if classes[byte as usize] == 0 {
                classes[byte as usize] = width as u16;
                width += 1;
            }
        }
        let mut next = vec![NOWHERE; width as usize];
        let mut longest = vec![NO_PREFIX];
        for (index, (prefix, _)) in prefixes.iter().enumerate() {
            let mut state = 0;
            for &byte in *prefix {
                let entry = state + classes[byte as usize] as usize;
                if next[entry] == NOWHERE {
                    next[entry] = next.len() as u32;
                    next.resize(next.len() + width as usize, NOWHERE);
                    longest.push(NO_PREFIX);
                }
                state = next[entry] as usize;
            }
            let own = &mut longest[state / width as usize];
            if *own != NO_PREFIX {
                return Err(RouterError::DuplicatePrefix(index));
            }
            *own = index as u32;
        }
        // A child's row lies behind its parent's, so one pass in order hands the longest prefix down.
        for state in 0..longest.len() {
            for &row in &next[state * width as usize..(state + 1) * width as usize] {
                let child = (row / width) as usize;
                if row != NOWHERE && longest[child] == NO_PREFIX {
                    longest[child] = longest[state];
                }
            }
        }
        Ok(Self {
            classes,
            next: next.into(),
            longest: longest.into(),
            width,
            domains: prefixes.iter().map(|&(_, domain)| domain).collect(),
            unmatched: Unmatched::new(fallback)?,
        })
    }

    /// Index of the longest prefix of `key`, if any. Costs at most the longest prefix's length plus one.
    #[inline]
    #[must_use]
    pub fn matched(&self, key: &[u8]) -> Option<u32> {
        let mut state = 0;
        for &byte in key {
            let next = self.next[(state + u32::from(self.classes[byte as usize])) as usize];
            if next == NOWHERE {
                break;
            }
            state = next;
        }
        let index = self.longest[(state / self.width) as usize];
        (index != NO_PREFIX).then_some(index)
    }

    /// Prefix, domain and slot of `key`.
    #[inline]
    #[must_use]
    pub fn route(&self, key: &[u8]) -> Route {
        let slot = slot(key);
        let prefix = self.matched(key);
        let domain = match prefix {
            Some(index) => self.domains[index as usize],
            None => self.unmatched.domain(key, slot),
        };
        Route { slot, domain, prefix }
    }
}

impl Unmatched {
    fn new(fallback: &Fallback) -> Result<Self, RouterError> {
        match fallback {
            Fallback::Reject => Ok(Self::Reject),
            &Fallback::Domain(domain) => check_domain(domain).map(|()| Self::Domain(domain)),
            Fallback::Hash(candidates) => rendezvous(candidates).map(Self::BySlot),
            Fallback::Md5Modulo(domains) => {
                domains.iter().try_for_each(|&domain| check_domain(domain))?;
                if domains.is_empty() {
                    return Err(RouterError::NoDomains);
                }
                Ok(Self::Md5Modulo(domains.as_slice().into()))
            }
        }
    }

    fn domain(&self, key: &[u8], slot: u16) -> u16 {
        match self {
            Self::Reject => DOMAIN_NONE,
            &Self::Domain(domain) => domain,
            Self::BySlot(table) => table[slot as usize],
            Self::Md5Modulo(domains) => {
                let digest = u128::from_be_bytes(Md5::digest(key).into());
                domains[(digest % domains.len() as u128) as usize]
            }
        }
    }
}

fn check_domain(domain: u16) -> Result<(), RouterError> {
    if domain < DOMAIN_NONE { Ok(()) } else { Err(RouterError::DomainRange(domain)) }
}

/// Slot → domain: the highest `hash64(name, 0, slot LE u16)` wins, ties go to the earlier name.
fn rendezvous(candidates: &[(u16, String)]) -> Result<Box<[u16; SLOTS]>, RouterError> {
    let &(first, _) = candidates.first().ok_or(RouterError::NoDomains)?;
    let mut table = Box::new([first; SLOTS]);
    let mut best = vec![None; SLOTS];
    for (domain, name) in candidates {
        check_domain(*domain)?;
        let mut text = [name.as_bytes(), &[0, 0, 0]].concat();
        let at = text.len() - 2;
        for slot in 0..SLOTS {
            text[at..].copy_from_slice(&(slot as u16).to_le_bytes());
            let score = Some(hash64(&text));
            if score > best[slot] {
                best[slot] = score;
                table[slot] = *domain;
            }
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::{DOMAIN_NONE, Fallback, Router, RouterError};

    fn table(prefixes: &[(&str, u16)], fallback: &Fallback) -> Result<Router, RouterError> {
        let bytes: Vec<(&[u8], u16)> = prefixes.iter().map(|(prefix, domain)| (prefix.as_bytes(), *domain)).collect();
        Router::new(&bytes, fallback)
    }

    fn names(names: &[&str]) -> Fallback {
        Fallback::Hash(names.iter().enumerate().map(|(at, name)| (at as u16, (*name).to_owned())).collect())
    }

    #[test]
    fn r5_the_longest_prefix_wins_in_any_order() {
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let prefixes = [("user", 10), ("user_profile", 11), ("user_profile_post", 12)];
        for order in orders {
            let router = table(&order.map(|at| prefixes[at]), &Fallback::Reject).unwrap();
            let domain = |key: &str| router.route(key.as_bytes()).domain;
            assert_eq!(domain("user_profile_x"), 11);
            assert_eq!(domain("user_profile_pos"), 11);
            assert_eq!(domain("user_profile_post"), 12);
            assert_eq!(domain("userx"), 10);
            assert_eq!(domain("user"), 10);
            assert_eq!(domain("use"), DOMAIN_NONE);
            assert_eq!(domain("zzz"), DOMAIN_NONE);
            assert_eq!(domain(""), DOMAIN_NONE);
        }
    }

    #[test]
    fn r5_a_duplicate_prefix_is_refused() {
        let twice = table(&[("a:", 0), ("b:", 1), ("a:", 2)], &Fallback::Reject);
        assert_eq!(twice.unwrap_err(), RouterError::DuplicatePrefix(2));
        let empty = table(&[("", 0), ("", 0)], &Fallback::Reject);
        assert_eq!(empty.unwrap_err(), RouterError::DuplicatePrefix(1));
    }

    #[test]
    fn the_empty_prefix_matches_every_key() {
        let router = table(&[("up:", 1), ("", 0)], &Fallback::Reject).unwrap();
        assert_eq!(router.matched(b"up:1"), Some(0));
        assert_eq!(router.matched(b"up"), Some(1));
        assert_eq!(router.matched(b""), Some(1));
        assert_eq!(router.route(b"zzz").domain, 0);
    }

    #[test]
    fn every_byte_value_may_occur_in_a_prefix() {
        let singles: Vec<[u8; 1]> = (0..=255).map(|byte| [byte]).collect();
        let prefixes: Vec<(&[u8], u16)> = singles.iter().map(|byte| (byte.as_slice(), u16::from(byte[0]))).collect();
        let router = Router::new(&prefixes, &Fallback::Reject).unwrap();
        for byte in 0..=255u8 {
            assert_eq!(router.matched(&[byte, 0]), Some(u32::from(byte)));
        }
    }

    #[test]
    fn domains_are_bounded_and_needed() {
        assert_eq!(table(&[("a", DOMAIN_NONE)], &Fallback::Reject).unwrap_err(), RouterError::DomainRange(DOMAIN_NONE));
        assert_eq!(table(&[], &Fallback::Domain(2000)).unwrap_err(), RouterError::DomainRange(2000));
        assert_eq!(table(&[], &names(&[])).unwrap_err(), RouterError::NoDomains);
        assert_eq!(table(&[], &Fallback::Md5Modulo(vec![])).unwrap_err(), RouterError::NoDomains);
    }

    #[test]
    fn md5_modulo_takes_the_digest_as_one_integer() {
        let router = table(&[], &Fallback::Md5Modulo(vec![5, 6, 7])).unwrap();
        // md5("") = d41d8cd98f00b204e9800998ecf8427e and md5("a") = 0cc175b9c0f1b6a831c399e269772661.
        let expected = |digest: u128| [5, 6, 7][(digest % 3) as usize];
        assert_eq!(router.route(b"").domain, expected(0xd41d_8cd9_8f00_b204_e980_0998_ecf8_427e));
        assert_eq!(router.route(b"a").domain, expected(0x0cc1_75b9_c0f1_b6a8_31c3_99e2_6977_2661));
    }

    #[test]
    fn rendezvous_moves_only_the_newcomers_share() {
        let before = table(&[], &names(&["user_profile", "freq_control", "realtime_billing"])).unwrap();
        let after = table(&[], &names(&["user_profile", "freq_control", "realtime_billing", "creative"])).unwrap();
        let mut moved = 0u32;
        let mut shares = [0u32; 3];
        for key in (0..40_000u32).map(u32::to_le_bytes) {
            let (old, new) = (before.route(&key).domain, after.route(&key).domain);
            shares[old as usize] += 1;
            if old != new {
                assert_eq!(new, 3);
                moved += 1;
            }
        }
        assert!((9_000..11_000).contains(&moved), "{moved}");
        assert!(shares.iter().all(|share| (12_300..14_400).contains(share)), "{shares:?}");
    }
}
