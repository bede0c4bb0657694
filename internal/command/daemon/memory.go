package daemon

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
	// headroom is the minimum number of bytes of garbage before a collection. A small heap
	// is collected rarely, so that steps do not pay for it with latency.
	headroom = 16 << 20
	// leastPercent is the garbage that a large heap may hold, in percent of live data. A large heap is
	// mostly tensors, which come from pools and make no garbage.
	leastPercent = 25
	mostPercent  = 400
	// trimEvery is how often idle memory is looked for. A pool must be unused in two successive looks.
	trimEvery = 2 * time.Second
	// worthReturning is the free memory in bytes that makes a collection worth its time.
	worthReturning = 4 << 20
	// quiet is how many bytes an idle process may allocate between two looks.
	quiet = 256 << 10
)

// trimmer is an owner of idle memory, such as a server.
type trimmer interface{ Trim() int64 }

// TuneMemory configures the Go runtime's use of memory. limit bounds the process's live memory; 0 means the default. The
// closer the process comes to it, the more often garbage is collected. A GOMEMLIMIT in the environment takes precedence.
func TuneMemory(limit int64) {
	limit = cmp.Or(limit, tensor.DefaultProcessMemory())
	if limit > 0 && debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(tensor.RuntimeMemory(limit))
	}
	debug.SetGCPercent(mostPercent)
	t := &tuner{percent: mostPercent}
	t.arm()
}

// tuner sets the garbage collector's percentage after each collection, by the live memory at that time.
type tuner struct{ percent int }

// arm makes an object that the next collection finds dead, and with it calls the tuner.
func (t *tuner) arm() {
	type sentinel struct{ _ [16]byte }
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) {
		s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(s)
		// Setting it stops the world for a moment, so only do it if it makes a difference.
		if p := percentFor(s[0].Value.Uint64()); p*4 < t.percent*3 || p*3 > t.percent*4 {
			t.percent = p
			debug.SetGCPercent(p)
		}
		t.arm()
	})
}

// percentFor returns the allowed garbage for a number of live bytes, in percent of them.
func percentFor(live uint64) int {
	return int(min(max(headroom*100/max(live, 1), leastPercent), mostPercent))
}

// keepSmall returns unused memory to the operating system until ctx ends.
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
				// Values in a sync.Pool survive one collection.
				runtime.GC()
				debug.FreeOSMemory()
			}
		}
	}
}

// heap is the Go runtime's report on its memory, in bytes.
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

// keeper decides when a collection that returns memory is worthwhile: when pools have released memory, once when the process becomes
// idle with much to return, and at growing intervals while it stays idle, since nothing reports what is freed meanwhile, such as
// sessions whose clients are gone.
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
