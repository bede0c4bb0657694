package durable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/troupe-run/troupe/internal/extent"
)

// A history is a random run of transactions on a store, with crashes at random moments: each takes a copy of the file system without a
// random part of what was not synced. Each copy is opened and compared with what may be there.

// event is a change of a key, in the order of the calls: its number is its index in the history's events.
type event struct {
	tx     int
	cell   int
	key    string
	delete bool
}

type modelTx struct {
	tx     *Tx
	events []int
	ended  bool
	acked  bool
	splits bool // it may be split
	goesOn []func()
}

type modelCell struct {
	cell      *Cell
	name      string
	dropped   bool
	dropAcked bool
}

type history struct {
	t      *testing.T
	seed   uint64
	rng    *rand.Rand
	fs     *vfs.MemFS
	store  *Store
	splits bool

	mu      sync.Mutex // held for each call, and for a crash
	events  []event
	txs     []*modelTx
	cells   []*modelCell
	crashes []crash
	next    int // file system operations until the next crash
}

// crash is what had been called at a crash, and the disk afterwards.
type crash struct {
	fs     *vfs.MemFS
	events int
	txs    []modelTx
	cells  []modelCell
}

func TestHistories(t *testing.T) {
	histories := 500
	switch {
	case extent.Full():
		histories = 20000
	case extent.Check():
		histories = 2000
	}
	if extent.RaceDetector {
		histories /= 3
	}
	crashes := 0
	for seed := range uint64(histories) {
		crashes += runHistory(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if n := unreleased.Load(); n != 0 {
		t.Errorf("%d values were not released", n)
	}
	t.Logf("%d histories, %d crashes", histories, crashes)
}

func runHistory(t *testing.T, seed uint64) int {
	h := &history{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), fs: newMem(t)}
	h.next = 40 + h.rng.IntN(60)
	patience := time.Hour
	if h.rng.IntN(3) == 0 {
		h.splits, patience = true, time.Duration(h.rng.IntN(2000))*time.Microsecond+1
	}
	fs := errorfs.Wrap(h.fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			h.operation()
		}
		return nil
	}))
	o := Options{Owner: "/job:ps/task:0", Log: quiet, FS: fs, Patience: patience}
	if h.rng.IntN(3) == 0 {
		o.Limit, o.Compaction = 1, h.rng.Int64N(1<<20) // files are rewritten all the time
	}
	var err error
	if h.store, err = Open("/d/store", o); err != nil {
		t.Fatal(err)
	}
	for range 10 + h.rng.IntN(120) {
		h.step()
	}
	h.locked(h.crash)
	h.finish()
	if err := h.store.Close(); err != nil {
		t.Error(err)
	}
	h.locked(h.crash)
	for _, c := range h.crashes {
		h.verify(c)
	}
	return len(h.crashes)
}

func (h *history) locked(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// operation is before each write of the file system.
func (h *history) operation() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next--; h.next == 0 && h.store != nil {
		h.next = 1 + rand.IntN(30)
		h.crash()
	}
}

func (h *history) crash() {
	if len(h.crashes) > 6 {
		return
	}
	c := crash{events: len(h.events)}
	for _, x := range h.txs {
		c.txs = append(c.txs, modelTx{events: slices.Clone(x.events), ended: x.ended, acked: x.acked, splits: x.splits})
	}
	for _, m := range h.cells {
		c.cells = append(c.cells, *m)
	}
	c.fs = h.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rand.IntN(101), RNG: rand.New(rand.NewPCG(h.seed, uint64(len(h.crashes))))})
	h.crashes = append(h.crashes, c)
}

// open returns a random transaction that goes on, or a new one.
func (h *history) open() *modelTx {
	if h.rng.IntN(4) > 0 {
		for range 4 {
			if len(h.txs) == 0 {
				break
			}
			if x := h.txs[h.rng.IntN(len(h.txs))]; !x.ended {
				return x
			}
		}
	}
	x := &modelTx{tx: h.store.Begin(), splits: h.splits}
	h.txs = append(h.txs, x)
	return x
}

func (h *history) step() {
	var after func()
	h.locked(func() {
		switch n := h.rng.IntN(20); {
		case n < 1 || len(h.cells) == 0:
			h.create()
		case n < 2 && h.rng.IntN(2) == 0:
			h.drop()
		case n < 12:
			h.change()
		case n < 14:
			x := h.open()
			x.splits = true
			x.goesOn = append(x.goesOn, x.tx.Waits())
		case n < 15:
			x := h.open()
			for _, f := range x.goesOn {
				f()
			}
			x.goesOn = nil
		case n < 19:
			after = h.end(h.open())
		default:
			if h.rng.IntN(4) == 0 {
				after = func() { time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond) } // the committer catches up
			}
		}
	})
	if after != nil {
		after()
	}
}

func (h *history) create() {
	m := &modelCell{name: strconv.Itoa(len(h.cells))}
	m.cell = create(h.t, h.store, m.name)
	h.cells = append(h.cells, m)
}

func (h *history) drop() {
	m := h.cells[h.rng.IntN(len(h.cells))]
	m.dropped = true
	m.cell.Drop(func(err error) {
		if err != nil {
			h.t.Error(err)
		}
		h.locked(func() { m.dropAcked = true })
	})
}

func (h *history) change() {
	id := h.rng.IntN(len(h.cells))
	m := h.cells[id]
	x := h.open()
	e := event{tx: slices.Index(h.txs, x), cell: id, key: strconv.Itoa(h.rng.IntN(5)), delete: h.rng.IntN(6) == 0}
	if e.delete {
		x.tx.Delete(m.cell, []byte(e.key))
	} else {
		size := h.rng.IntN(100)
		if h.rng.IntN(50) == 0 {
			size = h.rng.IntN(100000)
		}
		x.tx.Set(m.cell, []byte(e.key), value(fmt.Sprintf("%d %d %s %s", len(h.events), id, e.key, strings.Repeat("x", size))))
	}
	if m.dropped {
		return
	}
	x.events = append(x.events, len(h.events))
	h.events = append(h.events, e)
}

// end ends a transaction; the function that it returns is called without the lock.
func (h *history) end(x *modelTx) func() {
	x.ended = true
	return func() {
		x.tx.End(func(err error) {
			if err != nil {
				h.t.Error(err)
			}
			h.locked(func() { x.acked = true })
		})
	}
}

// finish ends all transactions.
func (h *history) finish() {
	for _, x := range h.txs {
		if !x.ended {
			var end func()
			h.locked(func() { end = h.end(x) })
			end()
		}
	}
	waitFor(h.t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return !slices.ContainsFunc(h.txs, func(x *modelTx) bool { return !x.acked })
	})
}

func waitFor(t testing.TB, f func() bool) {
	t.Helper()
	for start := time.Now(); !f(); time.Sleep(50 * time.Microsecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("it does not happen")
		}
	}
}

// verify opens the disk after a crash and checks it.
func (h *history) verify(c crash) {
	s, err := Open("/d/store", Options{Owner: "/job:ps/task:0", Log: quiet, FS: c.fs})
	if err != nil {
		h.t.Errorf("open after a crash: %v", err)
		return
	}
	disk := content(h.t, s)
	h.checkOrphans(s)
	if err := set(create(h.t, s, "afterwards"), "k", "v"); err != nil {
		h.t.Error(err)
	}
	if err := s.Close(); err != nil {
		h.t.Error(err)
	}
	h.compare(c, disk)
	if h.rng.IntN(4) == 0 {
		s := openStore(h.t, c.fs)
		if got := content(h.t, s)["afterwards"]["k"]; got != "v" {
			h.t.Errorf("the change after the crash is %q", got)
		}
		_ = s.Close()
	}
}

// checkOrphans checks that the database has no entries of cells that are not there.
func (h *history) checkOrphans(s *Store) {
	numbers := map[uint64]bool{}
	for _, c := range s.cells {
		numbers[c.number] = true
	}
	if err := each(s.db, []byte(entryStart), []byte(entryEnd), func(k, _ []byte) error {
		if n := uint64(k[8]) | uint64(k[7])<<8; !numbers[n] {
			return fmt.Errorf("entry %q of cell %d, which is not there", k, n)
		}
		return nil
	}); err != nil {
		h.t.Error(err)
	}
}

type cellKey struct {
	cell int
	key  string
}

// compare checks what is on disk after a crash. It computes for each transaction how far it must be there, its reach: the number of an event
// up to which all of its changes are on disk; and checks that this explains the disk.
func (h *history) compare(c crash, disk map[string]map[string]string) {
	reach := make([]int, len(c.txs)) // -1: nothing
	last := func(x int) int { return c.txs[x].events[len(c.txs[x].events)-1] }
	for i := range reach {
		reach[i] = -1
		if len(c.txs[i].events) > 0 && c.txs[i].acked {
			reach[i] = last(i)
		}
	}
	byKey := map[cellKey][]int{}
	for n, e := range h.events[:c.events] {
		k := cellKey{e.cell, e.key}
		byKey[k] = append(byKey[k], n)
	}
	raised := true
	raise := func(n int) {
		x := h.events[n].tx
		if !c.txs[x].splits {
			if !c.txs[x].ended {
				h.t.Errorf("event %d of transaction %d, which goes on, is on disk", n, x)
			}
			n = last(x)
		}
		if reach[x] < n {
			reach[x], raised = n, true
		}
	}
	for raised {
		raised = false
		for k, all := range byKey {
			h.raiseKey(c, disk, k, all, reach, raise)
			if h.t.Failed() {
				return
			}
		}
	}
	for i, m := range c.cells {
		if _, ok := disk[m.name]; ok && m.dropAcked {
			h.t.Errorf("cell %d is on disk after it was dropped", i)
		}
	}
}

// raiseKey follows from the state of a key which changes are on disk.
func (h *history) raiseKey(c crash, disk map[string]map[string]string, k cellKey, all []int, reach []int, raise func(int)) {
	m := c.cells[k.cell]
	entries, ok := disk[m.name]
	there := -1 // the last change of the key that must be on disk
	for _, n := range all {
		if n <= reach[h.events[n].tx] {
			there = n
		}
	}
	if !ok {
		if there >= 0 && !m.dropped {
			h.t.Errorf("cell %d is lost; event %d changed it", k.cell, there)
		}
		return
	}
	shown := there
	if v, ok := entries[k.key]; ok {
		var n, cell int
		var key string
		if _, err := fmt.Sscanf(v, "%d %d %s", &n, &cell, &key); err != nil || cell != k.cell || key != k.key || n >= c.events || n < there {
			h.t.Errorf("cell %d key %s has %.30q; event %d must be there", k.cell, k.key, v, there)
			return
		}
		shown = n
	} else if there >= 0 && !h.events[there].delete {
		i := slices.IndexFunc(all, func(n int) bool { return n > there && h.events[n].delete })
		if i < 0 {
			h.t.Errorf("cell %d has no key %s, which event %d set", k.cell, k.key, there)
			return
		}
		shown = all[i]
	}
	for _, n := range all { // a change on disk has those of its key before it on disk
		if n <= shown {
			raise(n)
		}
	}
}
