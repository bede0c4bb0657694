package durable

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
)

// TestFaults injects an error at each write of the file system in turn, once and from then on.
func TestFaults(t *testing.T) {
	stride := 4
	if extent.Check() {
		stride = 1
	}
	if extent.RaceDetector {
		stride *= 4
	}
	for _, lasting := range []bool{false, true} {
		at := 0
		for ; runFault(t, at, lasting); at += stride {
			if t.Failed() {
				t.Fatalf("the error is at write %d, lasting: %v", at, lasting)
			}
		}
		t.Logf("%d writes", at)
	}
	if n := unreleased.Load(); n != 0 {
		t.Errorf("%d values were not released", n)
	}
}

// TestFailuresAreKnownBeforeTheyAreHidden checks that an error is reported while other operations still reach the disk: a commit whose sync only pretends to
// succeed must find that the store has failed.
func TestFailuresAreKnownBeforeTheyAreHidden(t *testing.T) {
	s := openStore(t, newMem(t))
	fail := s.guard.failed
	s.guard.failed = func(op, name string, err error) {
		if s.guard.frozen.Load() {
			t.Errorf("%s of %s is hidden, and not reported yet", op, name)
		}
		fail(op, name, err)
	}
	if !s.guard.fails("sync", "a file", errorfs.ErrInjected) || !s.guard.frozen.Load() || s.failure.Load() == nil {
		t.Error("the store goes on")
	}
	_ = s.Close() // which returns the error
}

// runFault runs transactions with an error at a write, and reports whether there was such a write.
func runFault(t *testing.T, at int, lasting bool) (injected bool) {
	mem := newMem(t)
	var count atomic.Int64
	var what atomic.Pointer[errorfs.Op]
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpLock {
			return nil
		}
		if n := count.Add(1) - 1; n == int64(at) || lasting && n > int64(at) {
			what.CompareAndSwap(nil, &op)
			return errorfs.ErrInjected
		}
		return nil
	}))
	hangs := time.AfterFunc(time.Minute, func() { panic("the store hangs") })
	defer hangs.Stop()
	acked, failed := runWork(t, fs, int64(at/4%2)) // every other time, files are rewritten all the time
	if what.Load() == nil {
		return false
	}
	if op := what.Load(); !failed && op.Kind != errorfs.OpRemove {
		t.Errorf("the store did not notice the error of %v %s", op.Kind, op.Path)
	}
	for _, percent := range []int{0, 50, 100} {
		clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(uint64(at), 0))})
		s := openStore(t, clone)
		disk := content(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for name, key := range acked {
			if disk["v"][name] != key {
				t.Errorf("%d%%: %s is lost after an error of %v %s", percent, name, what.Load().Kind, what.Load().Path)
			}
		}
	}
	return true
}

// runWork commits transactions, and returns what was acknowledged, and whether there was an error.
func runWork(t *testing.T, fs vfs.FS, limit int64) (acked map[string]string, failed bool) {
	acked = map[string]string{}
	s, err := Open("/d/store", Options{Owner: "/job:ps/task:0", Log: quiet, FS: fs, Limit: limit})
	if err != nil {
		return acked, true
	}
	c, err := s.Create(Place{"cpu:0", "", "Variable", "v"}, []byte("about v"))
	for i := 0; err == nil && i < 40; i++ {
		key, v := fmt.Sprint("k", i), strings.Repeat("x", i*1000)
		if err = set(c, key, v); err == nil {
			acked[key] = v
		}
	}
	failed = err != nil
	if failed && (s.Err() == nil || status.CodeOf(s.Err()) != status.Internal || status.CodeOf(err) != status.Internal) {
		t.Errorf("a transaction failed with %v, but the store's error is %v", err, s.Err())
	}
	failed = s.Close() != nil || failed
	return acked, failed
}

// failing is a value that can't be encoded.
type failing struct{ *text }

func (failing) Append([]byte) ([]byte, error) { panic("boom") }

func TestPanics(t *testing.T) {
	mem := newMem(t)
	s := openStore(t, mem)
	c := create(t, s, "v")
	if err := set(c, "k", "1"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	x := s.Begin()
	x.Set(c, []byte("k"), value("2"))
	x.End(func(error) {
		close(ended)
		panic("boom")
	})
	<-ended
	if err := set(c, "k", "3"); err != nil || s.Err() != nil {
		t.Errorf("after a panic of done: %v, %v", err, s.Err())
	}
	x = s.Begin()
	x.Set(c, []byte("k"), failing{value("")})
	if err := end(x); status.CodeOf(err) != status.Internal || !strings.Contains(err.Error(), "boom") {
		t.Errorf("a panic of Append gives %v", err)
	}
	if status.CodeOf(s.Err()) != status.Internal {
		t.Errorf("the store's error is %v", s.Err())
	}
	if err := set(c, "k", "4"); status.CodeOf(err) != status.Internal {
		t.Errorf("the next transaction: %v", err)
	}
	if _, err := s.Create(Place{Name: "other"}, nil); err == nil {
		t.Error("a failed store creates a resource")
	}
	if err := s.Close(); status.CodeOf(err) != status.Internal {
		t.Errorf("Close: %v", err)
	}
	s = openStore(t, mem)
	if got := content(t, s)["v"]["k"]; got != "3" {
		t.Errorf("k is %s", got)
	}
	_ = s.Close()
	if n := unreleased.Load(); n != 0 {
		t.Errorf("%d values were not released", n)
	}
}
