package main

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/troupe-run/troupe/graph/tensor"
)

const (
	// headroom is how many bytes of garbage may gather before a collection, at least. A small heap
	// is collected rarely, so that a step's latency does not pay for it.
	headroom = 16 << 20
	// leastPercent is the garbage that a large heap may gather, in percent of what is alive. It is
	// mostly tensors, which come from pools and make no garbage.
	leastPercent = 25
	mostPercent  = 400
	// trimEvery is how often idle memory is looked for. Two looks must find a pool unused.
	trimEvery = 2 * time.Second
	// worthReturning is the free memory in bytes that makes a collection worth its time.
	worthReturning = 4 << 20
	// quiet is how many bytes may be allocated between two looks by a process that rests.
	quiet = 256 << 10
	// limitMargin is how many bytes of garbage may gather beside what may be alive, at least.
	limitMargin = 64 << 20
)

// trimmer is what holds idle memory, such as a server.
type trimmer interface{ Trim() int64 }

// tuneMemory sets how the Go runtime uses memory; limit is what may be alive in the process, 0 for the default. The
// closer the process comes to it, the more often garbage is collected. A GOMEMLIMIT of the environment stays.
func tuneMemory(limit int64) {
	limit = cmp.Or(limit, tensor.DefaultProcessMemory())
	if limit > 0 && debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(limit + limit/8 + limitMargin)
	}
	debug.SetGCPercent(mostPercent)
	t := &tuner{percent: mostPercent}
	t.arm()
}

// tuner sets the garbage collector's percentage after each collection by what is alive then.
type tuner struct{ percent int }

// arm makes an object that the next collection finds dead, and with it calls the tuner.
func (t *tuner) arm() {
	type sentinel struct{ _ [16]byte }
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) {
		s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(s)
		// Setting it stops the world for a moment: only where it makes a difference.
		if p := percentFor(s[0].Value.Uint64()); p*4 < t.percent*3 || p*3 > t.percent*4 {
			t.percent = p
			debug.SetGCPercent(p)
		}
		t.arm()
	})
}

// percentFor is the garbage that may gather over so many live bytes, in percent of them.
func percentFor(live uint64) int {
	return int(min(max(headroom*100/max(live, 1), leastPercent), mostPercent))
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
				// What rests in a sync.Pool survives one collection.
				runtime.GC()
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

// keeper decides when a collection that returns memory pays: when pools let go of some, once the process comes to
// rest with much to return, and in a long rest now and then, ever more rarely: of what dies in it, such as sessions
// whose clients are gone, nothing tells.
type keeper struct {
	last uint64
	rest uint // looks since the process came to rest
}

func (k *keeper) due(dropped int64, h heap) bool {
	busy := h.allocated-k.last > quiet
	k.last = h.allocated
	k.rest++
	if busy {
		k.rest = 0
	}
	switch {
	case dropped > 0:
		return true
	case k.rest == 1:
		return h.free+h.dead > worthReturning
	}
	return bits.OnesCount(k.rest) == 1
}
