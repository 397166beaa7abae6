//! Frames and sections against frames put together word by word.

use crate::models::{self, Operation};
use keylane_core::resp::encode::{EncodeError, Encoder, Tables, encode_to};
use proptest::prelude::*;
use std::sync::atomic::AtomicI32;

fn words(values: impl IntoIterator<Item = i32>) -> Vec<AtomicI32> {
    values.into_iter().map(AtomicI32::new).collect()
}

/// 512 words with the bits of `slots` set.
fn bits(slots: &[u16]) -> Vec<AtomicI32> {
    let mut held = vec![0u32; 512];
    for &slot in slots {
        held[usize::from(slot) / 32] |= 1 << (slot % 32);
    }
    words(held.into_iter().map(|word| word as i32))
}

fn argument() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..30),
        1 => prop::collection::vec(any::<u8>(), 95..105),
        1 => prop::collection::vec(Just(b'x'), 990..1010),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let arguments = prop::collection::vec(argument(), 1..4);
    (0usize..13, 0u32..4, arguments, prop::option::of(0usize..4)).prop_map(|(opcode, flags, mut arguments, key)| {
        if opcode == 12 {
            arguments.resize(2, b"*1\r\n$4\r\nEXEC\r\n".to_vec());
        }
        Operation { opcode, flags, key: key.filter(|&at| at < arguments.len()), arguments }
    })
}

proptest! {
    #[test]
    fn frames_sections_and_places(
        operations in prop::collection::vec(operation(), 0..24),
        nodes in prop::collection::vec(-1i32..5, 1..16),
        alias in prop::collection::vec(-2i32..6, 4..6),
        holds in any::<bool>(),
    ) {
        let slots: Vec<i32> = (0..16_384).map(|slot| nodes[slot % nodes.len()]).collect();
        let held: Vec<u16> = operations.iter().filter(|_| holds).step_by(3)
            .filter_map(|operation| operation.key.map(|key| models::slot(&operation.arguments[key]))).collect();
        let alias: Vec<i32> = alias.into_iter().map(|node| node.max(-1)).collect();
        let (runs, places) = models::partition(&operations, &slots, &held, &alias);
        let expected: Vec<u8> = runs.iter().flat_map(|run| run.1.clone()).collect();

        let (scratch, desc) = models::describe(&operations);
        let (slots, held, nodes) = (words(slots), bits(&held), words(alias));
        let tables = Tables { slots: &slots, held: &held, alias: &nodes };
        let mut encoder = Encoder::default();
        let mut out = vec![0xee; expected.len() + 3];
        let mut place = vec![99; operations.len() + 1];
        let mut sections = vec![99; nodes.len() * 4];

        if !expected.is_empty() {
            let short = expected.len() - 1;
            let needed = encoder.encode(&scratch, &desc, operations.len(), &tables, &mut out[..short], &mut place, &mut sections);
            prop_assert_eq!(needed, Ok(-(expected.len() as i32)));
            prop_assert!(out.iter().all(|&byte| byte == 0xee) && place.iter().chain(&sections).all(|&word| word == 99));
        }
        let written = encoder.encode(&scratch, &desc, operations.len(), &tables, &mut out, &mut place, &mut sections);
        prop_assert_eq!(written, Ok(expected.len() as i32));
        prop_assert_eq!(&out[..expected.len()], &expected);
        prop_assert_eq!(&out[expected.len()..], &[0xee; 3]);
        prop_assert_eq!(&place[..operations.len()], &places);
        prop_assert_eq!(place[operations.len()], 99);
        let mut offset = 0;
        for ((node, frames, count), section) in runs.iter().zip(sections.chunks(4)) {
            prop_assert_eq!(section, &[*node, offset, frames.len() as i32, *count]);
            offset += frames.len() as i32;
        }
        prop_assert!(sections[runs.len() * 4..].iter().all(|&word| word == 99));

        let all: Vec<u8> = operations.iter().flat_map(models::frame).collect();
        let mut run = vec![0xee; all.len()];
        prop_assert_eq!(encode_to(&scratch, &desc, operations.len(), &mut run), Ok(all.len() as i32));
        prop_assert_eq!(&run, &all);
        if !all.is_empty() {
            run.fill(0xee);
            let short = all.len() - 1;
            prop_assert_eq!(encode_to(&scratch, &desc, operations.len(), &mut run[..short]), Ok(-(all.len() as i32)));
            prop_assert!(run.iter().all(|&byte| byte == 0xee));
        }
    }

    #[test]
    fn words_of_any_kind_never_panic(
        desc in prop::collection::vec(prop_oneof![-2i32..20, any::<i32>()], 0..40),
        scratch in prop::collection::vec(any::<u8>(), 0..60),
        count in 0usize..8,
    ) {
        let (slots, held, alias) = (words((0..16_384).map(|slot| slot % 3)), words(vec![0; 512]), words(0..3));
        let tables = Tables { slots: &slots, held: &held, alias: &alias };
        let (mut out, mut place, mut sections) = ([0; 256], [0; 8], [0; 12]);
        let both = (
            Encoder::default().encode(&scratch, &desc, count, &tables, &mut out, &mut place, &mut sections),
            encode_to(&scratch, &desc, count, &mut [0; 256]),
        );
        prop_assert_eq!(both.0.is_ok(), both.1.is_ok());
    }
}

#[test]
fn what_is_not_well_formed_is_refused() {
    let (slots, held, alias) = (words(vec![0; 16_384]), words(vec![0; 512]), words([0]));
    let tables = Tables { slots: &slots, held: &held, alias: &alias };
    let encode = |desc: &[i32], count| {
        Encoder::default().encode(b"abc", desc, count, &tables, &mut [0; 64], &mut [0; 4], &mut [0; 4])
    };
    assert_eq!(encode(&[1, 1, 3], 1), Ok(22));
    for desc in [
        [1, 1, 4],           // more bytes than there are
        [1, 1, -1],          // a negative length
        [1, 2, 3],           // fewer lengths than announced
        [1, -1, 3],          // a negative count
        [13, 1, 3],          // an unknown opcode
        [12, 1, 3],          // a raw frame without its frame
        [1 | 1 << 16, 1, 3], // a key that is no argument
        [0, 0, 0],           // no name
    ] {
        assert_eq!(encode(&desc, 1), Err(EncodeError::Operation(0)), "{desc:?}");
    }
    assert_eq!(encode(&[1, 1, 3], 2), Err(EncodeError::Operation(1)));
    assert_eq!(encode(&[1, 1, 3], 5), Err(EncodeError::Place));
    let short = Tables { slots: &slots[1..], ..tables };
    let long = Tables { alias: &slots, ..tables };
    let with = |tables: &Tables<'_>| {
        Encoder::default().encode(b"abc", &[1, 1, 3], 1, tables, &mut [0; 64], &mut [0; 4], &mut [0; 4])
    };
    assert_eq!(with(&short), Err(EncodeError::Tables));
    assert_eq!(with(&Tables { held: &held[1..], ..tables }), Err(EncodeError::Tables));
    assert_eq!(with(&long), Err(EncodeError::Sections));
}
