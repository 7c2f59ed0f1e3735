// SPDX-License-Identifier: Apache-2.0
// A Go program that knows its stacks: each goroutine is in one chain of functions that are not
// inlined. One of them gets a signal each millisecond, and garbage is collected now and then.
package main

import (
	"crypto/sha256"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

var sink uint64
var heap [][]byte

//go:noinline
func burn(n uint64) uint64 {
	x := n | 1
	for i := 0; i < 3000; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// A leaf without a frame, behind one with one.
//
//go:noinline
func inner(n uint64) uint64 { return burn(n) + 1 }

//go:noinline
func recurse(n int) uint64 {
	if n == 0 {
		return burn(7)
	}
	return recurse(n-1) + 1
}

// More than fits into a row of the unwinder.
//
//go:noinline
func large(n uint64) uint64 {
	var room [60000]uint64
	room[n%60000] = inner(n)
	return room[n%60000] + room[(n+1)%60000]
}

type counter struct{ turns uint64 }

//go:noinline
func (c *counter) turn(n uint64) uint64 {
	c.turns++
	return inner(n)
}

type turner interface{ turn(n uint64) uint64 }

//go:noinline
func apply[T any](in []T, f func(T) T) T { return f(in[0]) }

//go:noinline
func recovers(n uint64) (result uint64) {
	defer func() {
		if recover() != nil {
			result = inner(n)
		}
	}()
	var none *counter
	return none.turns
}

//go:noinline
func digest(data []byte) uint64 { return uint64(sha256.Sum256(data)[0]) }

//go:noinline
func move(to, from []byte) uint64 { return uint64(copy(to, from)) }

//go:noinline
func clock() (sum uint64) {
	for i := 0; i < 100; i++ {
		sum += uint64(time.Now().UnixNano())
	}
	return
}

//go:noinline
func kernel() uint64 {
	syscall.Write(-1, nil)
	return uint64(syscall.Getppid())
}

//go:noinline
func garbage() uint64 {
	heap = append(heap[:0], make([]byte, 65536))
	return uint64(len(heap))
}

func recursing() { for { sink += recurse(40) } }
func enlarging() { for n := uint64(0); ; n++ { sink += large(n) } }
func applying()  { for { sink += apply([]uint64{1}, inner) } }
func failing()   { for n := uint64(0); ; n++ { sink += recovers(n) } }
func timing()    { for { sink += clock() } }
func calling()   { for { sink += kernel() } }
func littering() { for { sink += garbage() } }

func turning() {
	var t turner = &counter{}
	for n := uint64(0); ; n++ {
		sink += t.turn(n)
	}
}

func digesting() {
	data := make([]byte, 20000)
	for {
		sink += digest(data)
	}
}

func moving() {
	to, from := make([]byte, 100000), make([]byte, 100000)
	for {
		sink += move(to, from)
	}
}

func signalling() {
	got := make(chan os.Signal, 10)
	signal.Notify(got, syscall.SIGUSR1)
	for {
		syscall.Kill(os.Getpid(), syscall.SIGUSR1)
		<-got
		time.Sleep(time.Millisecond)
	}
}

func main() {
	for _, f := range []func(){recursing, enlarging, applying, failing, timing, calling, littering,
		turning, digesting, moving, signalling} {
		go f()
	}
	seconds, _ := strconv.Atoi(os.Args[1])
	time.Sleep(time.Duration(seconds) * time.Second)
}
