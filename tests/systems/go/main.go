// SPDX-License-Identifier: Apache-2.0

// A host that is written in Go: its runtime has taken nearly all signals, its threads run on small
// stacks of their own, have another one for signals, and are interrupted by signals all the time.
package main

// int begin_use(void);
// int use_part(int worker, int round);
// int end_use(int workers, int rounds);
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

const (
	workers = 16
	rounds  = 40
)

// Garbage, so that Go's collector stops the threads while they are in the library.
func disturb(done chan struct{}) {
	var kept [][]byte
	for {
		select {
		case <-done:
			return
		default:
			kept = append(kept, make([]byte, 1<<16))
			if len(kept) > 64 {
				kept = nil
				runtime.GC()
				time.Sleep(time.Millisecond)
			}
		}
	}
}

func main() {
	if C.begin_use() != 0 {
		os.Exit(1)
	}
	done := make(chan struct{})
	go disturb(done)
	var all sync.WaitGroup
	var lock sync.Mutex
	bad := 0
	for w := 0; w < workers; w++ {
		all.Add(1)
		go func(w int) {
			defer all.Done()
			for r := 0; r < rounds; r++ {
				if C.use_part(C.int(w), C.int(r)) != 0 {
					lock.Lock()
					bad++
					lock.Unlock()
				}
			}
		}(w)
	}
	all.Wait()
	close(done)
	if bad != 0 || C.end_use(workers, rounds) != 0 {
		fmt.Println("NO: something was lost,", bad)
		os.Exit(1)
	}
	fmt.Println("ok")
}
