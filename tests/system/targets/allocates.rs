// SPDX-License-Identifier: Apache-2.0
//! Allocates in functions of Rust that know how much: the protocol is that of allocates.c.

use std::alloc::{alloc, Layout};
use std::hint::black_box;
use std::io::{stdin, stdout, BufRead, Write};

const MIB: usize = 1 << 20;

/// What was allocated, and what of it is held.
type Bytes = (usize, usize);

#[inline(never)]
fn boxes(mib: usize) -> Bytes {
    let nr = mib * MIB / 1000;
    for _ in 0..nr {
        Box::leak(black_box(Box::new([1u8; 1000])));
    }
    (nr * 1000, nr * 1000)
}

#[inline(never)]
fn zeroes(mib: usize) -> Bytes {
    let nr = mib * MIB / 65536;
    for _ in 0..nr {
        black_box(vec![0u8; 65536]).leak();
    }
    (nr * 65536, nr * 65536)
}

#[inline(never)]
fn wide(mib: usize) -> Bytes {
    let nr = mib * MIB / 10000;
    for _ in 0..nr {
        black_box(unsafe { alloc(Layout::from_size_align(10000, 4096).unwrap()) });
    }
    (nr * 10000, nr * 10000)
}

/// A vector that grows by realloc.
#[inline(never)]
fn vectors(mib: usize) -> Bytes {
    let (mut values, mut room, mut all) = (Vec::new(), 0, 0);
    while values.len() < mib * MIB / 4 {
        values.push(1u32);
        if values.capacity() != room {
            room = values.capacity();
            all += room * 4;
        }
    }
    black_box(values).leak();
    (all, room * 4)
}

#[inline(never)]
fn gone(mib: usize) -> Bytes {
    let nr = mib * MIB / 1000;
    for _ in 0..nr {
        drop(black_box(Box::new([1u8; 1000])));
    }
    (nr * 1000, 0)
}

fn main() {
    println!("{} ready 0 0", std::process::id());
    for line in stdin().lock().lines() {
        let line = line.unwrap();
        let (name, mib) = line.split_once(' ').unwrap();
        let mib = mib.parse().unwrap();
        let (allocated, held) = match name {
            "boxes" => boxes(mib),
            "zeroes" => zeroes(mib),
            "wide" => wide(mib),
            "vectors" => vectors(mib),
            "gone" => gone(mib),
            _ => (0, 0),
        };
        println!("{} {} {} {}", std::process::id(), name, allocated, held);
        stdout().flush().unwrap();
    }
}
