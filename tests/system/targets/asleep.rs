// SPDX-License-Identifier: Apache-2.0
//! Threads that sleep in Rust: a lock, a channel, a closure, a panic that is caught.

use std::sync::{mpsc, Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

#[inline(never)]
fn nap() {
    thread::sleep(Duration::from_secs(100_000));
}

#[inline(never)]
fn receive() {
    let (_sender, receiver) = mpsc::channel::<u32>();
    println!("{:?}", receiver.recv());
}

#[inline(never)]
fn lock(held: &Mutex<u32>) {
    *held.lock().unwrap() += 1;
}

#[inline(never)]
fn condition() {
    let (lock, condition) = (Mutex::new(false), Condvar::new());
    let mut ready = lock.lock().unwrap();
    while !*ready {
        ready = condition.wait(ready).unwrap();
    }
}

trait Sleeper {
    fn sleep(&self, depth: u32);
}

struct Deep;

impl Sleeper for Deep {
    #[inline(never)]
    fn sleep(&self, depth: u32) {
        if depth == 0 {
            nap();
        } else {
            self.sleep(depth - 1);
        }
        println!("{}", depth);
    }
}

fn main() {
    let held = Arc::new(Mutex::new(0));
    let _guard = held.lock().unwrap();
    let other = held.clone();
    thread::spawn(receive);
    thread::spawn(condition);
    thread::spawn(move || lock(&other));
    thread::spawn(|| {
        let deep: Box<dyn Sleeper> = Box::new(Deep);
        deep.sleep(20);
    });
    nap();
}
