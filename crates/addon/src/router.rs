//! `createRouter`: the routing table of one spec, as an object of three functions that share it.
//!
//! The spec arrives flat: texts joined into one string with their lengths, domains as words. `load.ts` flattens it.

use crate::State;
use crate::call::{Call, Fault, Returned, function};
use crate::keys::{each_key, lengths};
use crate::view::Scratch;
use keylane_core::route::{self, Fallback};
use std::cell::RefCell;
use std::rc::Rc;

/// `prefix` word of a route when nothing matched.
const PREFIX_NONE: i32 = -1;

struct Router {
    table: route::Router,
    scratch: RefCell<Scratch>,
}

/// `createRouter(prefixes, lengths, domains, fallback, fallbackDomains, names, nameLengths)`, where `fallback` is 0 to
/// reject, 1 for one domain, 2 for a hash, 3 for MD5 modulo.
pub fn create(call: &Call<'_, 7>, state: &State) -> Result<Returned, Fault> {
    let mut scratch = state.scratch.borrow_mut();
    let domains = domains(call.words(2, "domains")?)?;
    let prefixes = texts(call, 0, call.words(1, "lengths")?, &mut scratch)?;
    if prefixes.len() != domains.len() {
        return Err(Fault::Range("a prefix needs one domain".into()));
    }
    let pairs: Vec<(&[u8], u16)> = prefixes.iter().map(Vec::as_slice).zip(domains).collect();
    let fallback = fallback(call, &mut scratch)?;
    let table = route::Router::new(&pairs, &fallback).map_err(|error| Fault::Range(error.to_string()))?;
    let router = Rc::new(Router { table, scratch: RefCell::default() });
    let object = call.env().object()?;
    call.env().bind(object, function!("route", route_key), Rc::clone(&router))?;
    call.env().bind(object, function!("matched", matched), Rc::clone(&router))?;
    call.env().bind(object, function!("routeBatch", route_batch), router)?;
    Ok(object)
}

fn fallback(call: &Call<'_, 7>, scratch: &mut Scratch) -> Result<Fallback, Fault> {
    let domains = domains(call.words(4, "fallback domains")?)?;
    match call.count(3, "fallback", 3, false)? {
        0 => Ok(Fallback::Reject),
        1 => match domains[..] {
            [domain] => Ok(Fallback::Domain(domain)),
            _ => Err(Fault::Range("the fallback needs one domain".into())),
        },
        2 => {
            let names = texts(call, 5, call.words(6, "name lengths")?, scratch)?;
            if names.len() != domains.len() {
                return Err(Fault::Range("the fallback needs one name for each domain".into()));
            }
            let names = names.iter().map(|name| String::from_utf8_lossy(name).into_owned());
            Ok(Fallback::Hash(domains.into_iter().zip(names).collect()))
        }
        _ => Ok(Fallback::Md5Modulo(domains)),
    }
}

fn domains(words: &[i32]) -> Result<Vec<u16>, Fault> {
    let domain = |&word: &i32| u16::try_from(word).map_err(|_| Fault::Range(format!("domain {word} is out of range")));
    words.iter().map(domain).collect()
}

fn texts(call: &Call<'_, 7>, index: usize, lengths: &[i32], scratch: &mut Scratch) -> Result<Vec<Vec<u8>>, Fault> {
    let mut texts = Vec::new();
    each_key(call, index, lengths, scratch, |text| texts.push(text.to_vec()))?;
    Ok(texts)
}

/// `slot | domain << 14`
fn word(route: &route::Route) -> i32 {
    i32::from(route.slot) | i32::from(route.domain) << 14
}

fn index(prefix: Option<u32>) -> i32 {
    prefix.map_or(PREFIX_NONE, |index| index as i32)
}

fn route_key(call: &Call<'_, 1>, router: &Router) -> Result<Returned, Fault> {
    let mut scratch = router.scratch.borrow_mut();
    let route = router.table.route(&call.key(0, &mut scratch)?);
    call.int(word(&route))
}

fn matched(call: &Call<'_, 1>, router: &Router) -> Result<Returned, Fault> {
    let mut scratch = router.scratch.borrow_mut();
    let prefix = router.table.matched(&call.key(0, &mut scratch)?);
    call.int(index(prefix))
}

fn route_batch(call: &Call<'_, 4>, router: &Router) -> Result<Returned, Fault> {
    let (pairs, _) = call.words_mut(3, "out")?.as_chunks_mut::<2>();
    let lengths = lengths(call, 1, 2, pairs.len())?;
    let mut pairs = pairs.iter_mut();
    each_key(call, 0, lengths, &mut router.scratch.borrow_mut(), |key| {
        if let Some(pair) = pairs.next() {
            let route = router.table.route(key);
            *pair = [word(&route), index(route.prefix)];
        }
    })?;
    call.undefined()
}
