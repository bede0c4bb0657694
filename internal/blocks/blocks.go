// Package blocks tells tests in memory blocks of which size the Go runtime allocates objects.
//
// Blocks of one size share spans of memory, and a span is returned when all of its blocks are free. The runtime never frees the descriptor of a
// goroutine. So after many goroutines have run at once, their descriptors keep the spans of all objects of the same size that were allocated between
// them: ten thousand steps left holes of 10 MiB behind. What is allocated for each of many goroutines should have another size.
package blocks

import (
	"runtime"
	"sync"
)

// Of returns the size of the block for an object of so many bytes with pointers; 0 if it gets a span of its own.
func Of(object uintptr) uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	for _, b := range m.BySize {
		if uintptr(b.Size) >= object {
			return b.Size
		}
	}
	return 0
}

// Goroutine returns the size of the block for a goroutine's descriptor. It starts goroutines to find it, more than have run before; 0 if a hundred
// thousand do not suffice.
func Goroutine() uint32 {
	for n := 1000; n < 100_000; n *= 2 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		end := make(chan struct{})
		var started, ended sync.WaitGroup
		started.Add(n)
		for range n {
			ended.Go(func() {
				started.Done()
				<-end
			})
		}
		started.Wait()
		runtime.ReadMemStats(&after)
		close(end)
		ended.Wait()
		// Nothing else as large is allocated as often.
		for i := len(after.BySize) - 1; i >= 0; i-- {
			if b := after.BySize[i]; b.Size >= 256 && b.Mallocs-before.BySize[i].Mallocs > uint64(n)*3/4 {
				return b.Size
			}
		}
	}
	return 0
}
