// SPDX-License-Identifier: Apache-2.0
// Go that calls C, C that calls Go back, and a thread of C's own that calls Go.
package main

/*
#include <stdint.h>
uint64_t c_burn(uint64_t n);
uint64_t c_outer(uint64_t n);
void c_thread(void);
*/
import "C"

import (
	"os"
	"strconv"
	"time"
)

var sink uint64

//go:noinline
func burn(n uint64) uint64 {
	x := n | 1
	for i := 0; i < 30000; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

//go:noinline
func down(n uint64) uint64 { return uint64(C.c_burn(C.uint64_t(n))) + 1 }

//go:noinline
func there(n uint64) uint64 { return uint64(C.c_outer(C.uint64_t(n))) + 1 }

//export goBack
func goBack(n C.uint64_t) C.uint64_t { return C.uint64_t(burn(uint64(n)) + down(uint64(n))) }

//export goFromThread
func goFromThread(n C.uint64_t) C.uint64_t { return C.uint64_t(burn(uint64(n)) + 1) }

func back() { for n := uint64(0); ; n++ { sink += there(n) } }

func forth() { for n := uint64(0); ; n++ { sink += down(n) } }

func main() {
	go back()
	go forth()
	C.c_thread()
	seconds, _ := strconv.Atoi(os.Args[1])
	time.Sleep(time.Duration(seconds) * time.Second)
}
