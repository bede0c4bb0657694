package durable

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// openLimited opens a store on a disk with a limit.
func openLimited(t *testing.T, fs vfs.FS, o Options) *Store {
	t.Helper()
	o.Owner, o.Log, o.FS = "/job:ps/task:0", quiet, fs
	s, err := Open("/d/store", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bytesOf returns random letters, which are not compressed much.
func bytesOf(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.IntN(256))
	}
	return string(b)
}

// fill adds elements until the store refuses one, and returns how many it took. It goes on where there are n already.
func fill(t *testing.T, c *Cell, rng *rand.Rand, n, size int) int {
	t.Helper()
	for ; ; n++ {
		if err := c.store.Admits(Adds(size)); err != nil {
			if status.CodeOf(err) != status.ResourceExhausted {
				t.Fatal(err)
			}
			return n
		}
		if err := set(c, fmt.Sprintf("%08d", n), bytesOf(rng, size)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
}

func remove(t *testing.T, c *Cell, n int) {
	t.Helper()
	if err := c.store.Admits(Removes()); err != nil {
		t.Fatalf("a removal from a full store: %v", err)
	}
	x := c.store.Begin()
	x.Delete(c, fmt.Appendf(nil, "%08d", n))
	if err := end(x); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// TestLimit fills a store, takes from it and fills it again.
func TestLimit(t *testing.T) {
	const limit, size = 4 << 20, 50 << 10
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		rng := rand.New(rand.NewPCG(1, 2))
		s := openLimited(t, mem, Options{Limit: limit})
		c := create(t, s, "q")
		n := fill(t, c, rng, 0, size)
		if n < limit/size*3/4 {
			t.Errorf("it is full with %d elements of %d bytes", n, size)
		}
		if err := s.Admits(Adds(size)); status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), "--data-limit") {
			t.Errorf("when it is full: %v", err)
		}
		if err := s.Admits(Replaces(size, size)); err != nil {
			t.Errorf("when it is full, what replaces something: %v", err)
		}
		first := 0
		for round := range 4 {
			for range n / 2 {
				remove(t, c, first)
				first++
			}
			time.Sleep(time.Minute) // until there was a rewriting, if one is needed
			synctest.Wait()
			was := n
			if n = fill(t, c, rng, first+n-n/2, size) - first; n < was*3/4 {
				t.Errorf("round %d: it is full with %d elements, and was with %d", round, n, was)
			}
			if d := s.Stats().Disk; d > limit*5/4 {
				t.Errorf("round %d: the files have %d bytes", round, d)
			}
		}
		c.Drop(func(error) {})
		time.Sleep(time.Minute)
		synctest.Wait()
		_ = s.Admits(Adds(limit))
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := s.Stats().Disk; d > 1<<20 {
			t.Errorf("when everything was deleted, the files have %d bytes", d)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		// A lower limit refuses what adds something at once, and nothing else.
		s = openStore(t, mem)
		n = 0
		c = create(t, s, "again")
		for range 20 {
			if err := set(c, fmt.Sprintf("%08d", n), bytesOf(rng, size)); err != nil {
				t.Fatal(err)
			}
			n++
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		s = openLimited(t, mem, Options{Limit: 10 * size})
		if err := s.Admits(Adds(1)); status.CodeOf(err) != status.ResourceExhausted {
			t.Errorf("with a lower limit: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestReplacing replaces a large value for long: nothing is refused, and the files stay near the limit.
func TestReplacing(t *testing.T) {
	const limit, size = 4 << 20, 1 << 20
	for _, rate := range []int64{0, 1 << 20} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(1, 2))
				s := openLimited(t, vfs.NewMem(), Options{Limit: limit, Compaction: rate})
				c := create(t, s, "v")
				most := int64(0)
				for i := range 40 {
					if err := s.Admits(Replaces(size, size)); err != nil {
						t.Fatalf("%d: %v", i, err)
					}
					if err := set(c, "v", bytesOf(rng, size)); err != nil {
						t.Fatal(err)
					}
					most = max(most, s.Stats().Disk)
				}
				if most > limit+limit/crowdPart+size+limit { // when commits wait, one that began before, and a copy
					t.Errorf("the files had %d bytes", most)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestFullDisk: what removes something is admitted as long as there is room for its record, and what is large only if there is room for it.
func TestFullDisk(t *testing.T) {
	const reserve = 64 << 20
	for _, c := range []struct {
		free            int64
		adds, removes   bool
		replaces, large bool
	}{
		{1 << 30, true, true, true, true},
		{reserve + 1<<20, true, true, true, false},
		{reserve - 1, false, true, true, false},
		{reserve / 2, false, true, true, false},
		{reserve/4 + 1000, false, true, false, false},
		{reserve/4 - 1, false, false, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			mem := newMem(t)
			mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: uint64(c.free), TotalBytes: 1 << 40})
			s := openLimited(t, mem, Options{Reserve: reserve})
			for _, n := range []struct {
				what     string
				need     Need
				admitted bool
			}{{"what adds", Adds(1000), c.adds}, {"what removes", Removes(), c.removes}, {"what replaces", Replaces(1<<20, 1<<20), c.replaces}, {"a large value", Replaces(1<<27, 1<<27), c.large}} {
				err := s.Admits(n.need)
				if (err == nil) != n.admitted || err != nil && status.CodeOf(err) != status.ResourceExhausted {
					t.Errorf("%s with %d bytes free: %v", n.what, c.free, err)
				}
			}
			mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 39, TotalBytes: 1 << 40})
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if err := s.Admits(Adds(1000)); err != nil {
				t.Errorf("when there is room again: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPace compares how long a compaction takes with and without a bound.
func TestPace(t *testing.T) {
	const size, rate = 4 << 20, 1 << 20
	for _, bound := range []int64{0, rate} {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			s := openLimited(t, vfs.NewMem(), Options{Compaction: bound})
			c := create(t, s, "v")
			for i := range 4 {
				for k := range 4 {
					if err := set(c, fmt.Sprint(4*k+i), bytesOf(rng, size/16)); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			if err := s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			if want := time.Duration(bound) * (size / rate) * time.Second / rate; took < want*3/4 || took > want*3 {
				t.Errorf("%d bytes with a bound of %d took %v", size, bound, took)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPaceIsLifted: the end of a store, and commits that wait, do not wait for a compaction that must be slow.
func TestPaceIsLifted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(1)
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			lower := p.lift()
			p.took(1 << 30)
			time.Sleep(time.Second)
			lower()
		}()
		p.took(1 << 30)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Minute)
		began = time.Now()
		if p.took(3); time.Since(began) != 3*time.Second {
			t.Errorf("3 bytes at one a second took %v", time.Since(began))
		}
	})
}

// sized is a value that says that it has many bytes.
type sized struct {
	*text
	bytes int
}

func (s sized) Size() int { return s.bytes }

// TestPending: what waits to be written, all of which may have to be in one batch, is bounded; a change in pieces has one of them there.
func TestPending(t *testing.T) {
	s := openLimited(t, newMem(t), Options{})
	c := create(t, s, "v")
	refused := func(n Need) bool {
		err := s.Admits(n)
		if err != nil && status.CodeOf(err) != status.ResourceExhausted {
			t.Errorf("%+v: %v", n, err)
		}
		return err != nil
	}
	if all := Adds(mostPending + 1); !refused(all) || refused(all.InPieces(1<<20)) || refused(Adds(2<<30)) {
		t.Error("one change is refused otherwise than by its size")
	}
	x := s.Begin()
	x.Set(c, []byte("k"), sized{value(""), 2 << 30})
	if !refused(Adds(2<<30)) || !refused(Replaces(2<<30, 2<<30)) || refused(Adds(1<<20)) || refused(Removes()) {
		t.Error("changes are refused otherwise than by what is on its way")
	}
	if err := end(x); err != nil {
		t.Fatal(err)
	}
	if refused(Adds(2 << 30)) {
		t.Error("a change is refused when nothing is on its way")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMemory: changes that are not on disk are counted in the process's memory until they are.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openLimited(t, newMem(t), Options{})
		c := create(t, s, "v")
		held := func() int64 { return s.room.memory.Stats().InUse }
		x, y := s.Begin(), s.Begin()
		x.Set(c, []byte("a"), value(strings.Repeat("x", 1<<20)))
		x.Set(c, []byte("a"), value(strings.Repeat("x", 2<<20)))
		y.Set(c, []byte("b"), Bytes(make([]byte, 1000)))
		y.Delete(c, []byte("c"))
		if n := held(); n < 2<<20+1000 || n > 2<<20+5000 {
			t.Errorf("%d bytes are held", n)
		}
		if err := end(y); err != nil {
			t.Fatal(err)
		}
		if n := held(); n < 2<<20 || n > 2<<20+1000 {
			t.Errorf("%d bytes are held by one transaction", n)
		}
		if err := end(x); err != nil {
			t.Fatal(err)
		}
		x = s.Begin()
		x.Set(c, []byte("lost"), value(""))
		c.Drop(func(error) {})
		s.fail(status.Internalf("lost"))
		if err := end(x); err == nil {
			t.Error("a failed store commits")
		}
		synctest.Wait()
		if n := held(); n != 0 {
			t.Errorf("%d bytes are held by none", n)
		}
		_ = s.Close()
	})
	tensor.Process.SetLimit(64 << 20)
	defer tensor.Process.SetLimit(0)
	s := openLimited(t, newMem(t), Options{})
	if err := s.Admits(Adds(1 << 30).InPieces(1 << 20)); err != nil {
		t.Errorf("in pieces: %v", err)
	}
	if err := s.Admits(Adds(1 << 30)); status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), "--process-memory") {
		t.Errorf("without memory: %v", err)
	}
	if err := s.Admits(Removes()); err != nil {
		t.Errorf("without memory, what removes something: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
