// SPDX-License-Identifier: Apache-2.0
// Goroutines that each hold a thread in a system call, so many functions deep as their number says.
// On SIGQUIT Go prints what their stacks are.
package main

import (
	"os"
	"strconv"
	"syscall"
)

type reader struct{ fd int }

//go:noinline
func (r *reader) wait() int {
	var room [100]byte
	n, _ := syscall.Read(r.fd, room[:])
	return n
}

//go:noinline
func pass[T any](v T, f func(T) int) int { return f(v) + 1 }

//go:noinline
func down(r *reader, n int) int {
	if n == 0 {
		return pass(r, (*reader).wait)
	}
	return down(r, n-1) + 1
}

func main() {
	threads, _ := strconv.Atoi(os.Args[1])
	for i := 0; i < threads; i++ {
		var ends [2]int
		syscall.Pipe(ends[:])
		go func(n int) { down(&reader{ends[0]}, n) }(i)
	}
	var ends [2]int
	syscall.Pipe(ends[:])
	down(&reader{ends[0]}, threads)
}
