package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// gcPercent keeps the heap's garbage small: tensors rest in pools, so that little garbage is made.
	gcPercent = 50
	// trimEvery is how often idle memory is looked for. Two looks must find a pool unused.
	trimEvery = 2 * time.Second
	// worthReturning is the free memory in bytes that makes a collection worth its time.
	worthReturning = 4 << 20
	// quiet is how many bytes may be allocated between two looks by a process that rests.
	quiet = 256 << 10
	// limitMargin is what a memory limit leaves for everything but tensors, in bytes.
	limitMargin = 64 << 20
)

// trimmer is what holds idle memory, such as a server.
type trimmer interface{ Trim() int64 }

// tuneMemory sets how the Go runtime uses memory; limit bounds the tensors of the process, 0 for no
// bound.
func tuneMemory(limit int64) {
	debug.SetGCPercent(gcPercent)
	if limit > 0 {
		debug.SetMemoryLimit(limit + limit/8 + limitMargin)
	}
}

// keepSmall returns memory that nothing uses to the operating system until ctx ends.
func keepSmall(ctx context.Context, pools ...trimmer) {
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	var k keeper
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			var dropped int64
			for _, p := range pools {
				dropped += p.Trim()
			}
			if k.due(dropped, readHeap()) {
				debug.FreeOSMemory()
			}
		}
	}
}

// heap is what the Go runtime tells of its memory, in bytes.
type heap struct {
	allocated uint64 // since the start
	free      uint64 // held from the operating system, but empty
	dead      uint64 // objects that the next collection may find unused, at most
}

func readHeap() heap {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	h := heap{allocated: s[0].Value.Uint64(), free: s[1].Value.Uint64()}
	if objects, live := s[2].Value.Uint64(), s[3].Value.Uint64(); objects > live {
		h.dead = objects - live
	}
	return h
}

// keeper decides when a collection that returns memory pays: when pools let go of some, or once
// each time the process comes to rest with much to return.
type keeper struct {
	last uint64
	done bool
}

func (k *keeper) due(dropped int64, h heap) bool {
	busy := h.allocated-k.last > quiet
	k.last = h.allocated
	if busy {
		k.done = false
	}
	if dropped > 0 {
		return true
	}
	if busy || k.done {
		return false
	}
	k.done = true
	return h.free+h.dead > worthReturning
}
