// SPDX-License-Identifier: Apache-2.0
//! A chain through a trait object and a generic function.

use std::hint::black_box;

extern "C" {
    fn alarm(seconds: u32) -> u32;
    fn prctl(option: i32, arg: u64) -> i32;
}

trait Worker {
    fn work(&self, rounds: u64) -> u64;
}

struct Spinner<T> {
    seed: T,
}

#[inline(never)]
fn rust_spin(rounds: u64, seed: u64) -> u64 {
    let mut sum = seed;
    for i in 0..rounds {
        sum = black_box(sum ^ i).wrapping_mul(31);
    }
    sum
}

impl Worker for Spinner<u64> {
    #[inline(never)]
    fn work(&self, rounds: u64) -> u64 {
        let sum = rust_spin(rounds, self.seed);
        black_box(sum) + 1
    }
}

#[inline(never)]
fn generic_call<T: Worker + ?Sized>(worker: &T, rounds: u64) -> u64 {
    let sum = worker.work(rounds);
    black_box(sum).wrapping_add(rounds)
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(20);
    unsafe { alarm(seconds) };
    if std::env::var("TARGET_NONDUMPABLE").as_deref() == Ok("1") {
        unsafe { prctl(4, 0) };
    }
    let worker: Box<dyn Worker> = Box::new(Spinner { seed: 7u64 });
    loop {
        black_box(generic_call(&*worker, 20000));
    }
}
