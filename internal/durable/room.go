package durable

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"math"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
)

// Need is what a change needs, in bytes: how many are written, how many of them are on their way to the disk at a time, and how much larger what
// the store keeps is afterwards.
type Need struct{ write, atOnce, grow int64 }

// Adds is the need of a change that adds n bytes.
func Adds(n int) Need { return Need{int64(n), int64(n), int64(n)} }

// Replaces is the need of a change after which something has size bytes that had was.
func Replaces(was, size int) Need { return Need{int64(size), int64(size), int64(max(size-was, 0))} }

// InPieces is the need if the change is written in pieces of at most that many bytes, each after the one before is on disk.
func (n Need) InPieces(most int) Need {
	n.atOnce = min(n.atOnce, int64(most))
	return n
}

// Removes is the need of a change that only makes smaller what there is.
func Removes() Need { return Need{} }

const (
	// floorPart is the divisor that yields from the reserve what is left for records of changes that remove something.
	floorPart = 4
	// crowdPart is the divisor that yields from the limit by how much files may exceed it before commits wait for room.
	crowdPart = 4
	// fullPart is the divisor that yields from the limit how much below it files are rewritten before something is refused.
	fullPart = 16
	// piecePart is the divisor that yields from the limit what is rewritten at once, of which there are two copies meanwhile.
	piecePart = 16
	leastRoom = 8 << 20
	// gainPart is the divisor that yields from the limit what a rewriting has to gain, if the next need not be later. Those that gained less are
	// followed by a rest of as long as they took, then of twice as long, up to restPart times, and all of them by leastRest.
	gainPart  = 16
	restPart  = 8
	leastRest = time.Second
	// changeBytes is about what a change takes in memory besides its key and its value.
	changeBytes = 256
	// mostPending is the most bytes of changes that may be on their way to the disk. One batch may have all of them, and a batch that reaches 4 GiB
	// would fail the store.
	mostPending = 3 << 30
)

// room is how much the store may still write and keep.
type room struct {
	limit   int64 // 0 is none
	reserve int64
	used    atomic.Int64 // bytes of all files, as far as they are known
	free    atomic.Int64 // bytes of the disk
	stale   atomic.Bool  // files were made or removed since they were counted
	wanted  atomic.Bool  // something was refused for lack of room, or is about to be
	memory  *tensor.Pool // counts the changes that are not on disk

	// The rest is used by the committer only.
	short     bool
	told      time.Time      // when the log was told that room is short
	rewriting chan rewritten // gets what the rewriting that is under way has done, or nil
	tired     time.Time      // until when there is no other
	vain      int            // how many times as long as it took the last one is followed by a rest; 0 if it gained enough
	seen      uint64         // the batches that it has rewritten
	since     int64          // bytes written after it began
}

// Admits returns an error if a change must not be made, since it could not be kept: RESOURCE_EXHAUSTED if there is no room for it on the disk,
// below the limit, in the task's memory, or beside what is being written, UNAVAILABLE while the disk does not answer, and INTERNAL, for good, after
// a failed write. Changes that only remove something are admitted as long as there is room for their records. Those that are made without a question
// are written in any case, for which there is a reserve.
func (s *Store) Admits(n Need) error {
	if err := s.stalls(); err != nil {
		return err
	}
	if err := s.lacks(n); err != nil {
		if s.failure.Load() == nil && !s.room.wanted.Swap(true) {
			s.wake()
		}
		return err
	}
	if n.write == 0 {
		return nil
	}
	if pending := s.pending.Load(); pending+n.atOnce > mostPending {
		return status.Errorf(status.ResourceExhausted, "%d bytes of changes are on their way to the disk of the durable store in %s, and with %d more they would exceed %d: change less in one step, or keep large variables by snapshots (:snapshot=30s)",
			pending, s.dir, n.atOnce, int64(mostPending))
	}
	if err := s.room.memory.Reserve(n.atOnce); err != nil {
		return status.Prefix(err, "a change of a durable resource: ")
	}
	s.room.memory.Unreserve(n.atOnce) // counted again when it is made
	return nil
}

// Err returns why the disk, or the limit, permits no changes that add something now, or nil.
func (s *Store) Err() error { return cmp.Or(s.stalls(), s.lacks(Adds(1))) }

func (s *Store) lacks(n Need) error {
	if f := s.failure.Load(); f != nil {
		return f.err
	}
	r := &s.room
	pending := s.pending.Load()
	free := r.free.Load() - pending
	switch used := r.used.Load() + pending; {
	case free < r.reserve && n.grow > 0 || free-n.write < r.reserve/floorPart:
		return status.Errorf(status.ResourceExhausted, "the disk of the durable store in %s has %d bytes free, which is too little for %d more beside its reserve of %d; free some space",
			s.dir, r.free.Load(), n.write, r.reserve)
	case r.limit > 0 && n.grow > 0 && used+n.grow > r.limit:
		return status.Errorf(status.ResourceExhausted, "the durable store in %s takes %d of the %d bytes that it may (--data-limit), and %d more were asked for; what removes something, such as a dequeue, is possible",
			s.dir, used, r.limit, n.grow)
	}
	return nil
}

// hold counts the memory of a change that is not on disk, beside what its value refers to: its record, and its encoding in a batch. It has
// been admitted, so that it is made in any case.
func (r *room) hold(ch *change) {
	n := ch.size + changeBytes
	if r.memory.Reserve(n) == nil {
		ch.held = n
	}
}

func (r *room) drop(ch *change) {
	r.memory.Unreserve(ch.held)
	ch.held = 0
}

// measure counts the files if there may be others than before.
func (s *Store) measure() {
	if !s.room.stale.Swap(false) {
		return
	}
	if n, err := s.size(); err == nil {
		s.room.used.Store(n)
	} else {
		s.room.stale.Store(true) // what is not known now is asked for the next time
	}
}

// size returns the number of bytes of all files.
func (s *Store) size() (total int64, err error) {
	names, err := s.guard.List(s.dir)
	if err != nil {
		return 0, err
	}
	for _, n := range names {
		info, err := s.guard.Stat(s.guard.PathJoin(s.dir, n))
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		case err != nil:
			return 0, err
		case !info.IsDir():
			total += info.Size()
		}
	}
	return total, nil
}

// checkSpace looks how much room there is, and makes some if it is wanted.
func (s *Store) checkSpace(now time.Time) {
	r := &s.room
	if u, err := s.guard.GetDiskUsage(s.dir); err == nil {
		r.free.Store(int64(min(u.AvailBytes, math.MaxInt64)))
	}
	s.measure()
	if s.failure.Load() != nil {
		return
	}
	refused, full := r.wanted.Load(), r.limit > 0 && r.used.Load() >= r.limit-r.limit/fullPart
	if refused || full {
		s.makeRoom(now)
	}
	short := r.free.Load() < r.reserve || refused || full && r.short
	switch {
	case short && !r.short && now.Sub(r.told) >= splitLogInterval:
		r.told = now
		s.log.Warn("The durable store has no room; the task refuses changes that add to it", "directory", s.dir, "free", r.free.Load(), "reserve", r.reserve,
			"files", r.used.Load(), "limit", r.limit)
	case !short && r.short:
		s.log.Info("The durable store has room again", "directory", s.dir, "free", r.free.Load(), "files", r.used.Load())
	}
	r.short = short
}

// makeRoom begins to rewrite files without what is not there any more, unless the last time is too short ago, or nothing was written since.
func (s *Store) makeRoom(now time.Time) {
	r := &s.room
	if r.limit == 0 || r.seen == s.batches {
		r.wanted.Store(false)
		return
	}
	if !s.rewrites() && !now.Before(r.tired) && r.free.Load()-r.limit/piecePart > r.reserve/floorPart {
		r.wanted.Store(false)
		s.rewrite()
	}
}

// rewritten is what a rewriting has done.
type rewritten struct {
	took   time.Duration
	gained int64
}

// rewrites reports whether files are being rewritten. At the end of a rewriting it decides when there may be another.
func (s *Store) rewrites() bool {
	r := &s.room
	if r.rewriting == nil {
		return false
	}
	select {
	case did := <-r.rewriting:
		r.rewriting = nil
		if did.gained >= r.limit/gainPart {
			r.vain = 0
		} else {
			r.vain = min(max(1, 2*r.vain), restPart)
		}
		r.tired = time.Now().Add(max(time.Duration(r.vain)*did.took, leastRest))
		return false
	default:
		return true
	}
}

// rewrite has all files rewritten, a piece at a time.
func (s *Store) rewrite() {
	r, db, began := &s.room, s.db, time.Now()
	r.seen, r.since = s.batches, 0
	r.rewriting = make(chan rewritten, 1)
	ended, did := r.rewriting, rewritten{}
	contain.Go(s.log, "The rewriting of the durable store", func() {
		defer s.moved()
		defer func() { ended <- did }()
		was := needed(db)
		keys, err := bounds(db, max(r.limit/piecePart, leastRoom))
		for i := 0; i+1 < len(keys) && err == nil; i++ {
			err = db.Compact(s.life, keys[i], keys[i+1], false)
		}
		switch {
		case err == nil:
			did = rewritten{time.Since(began), was - needed(db)}
		case s.life.Err() == nil:
			s.fail(s.readError(err))
		}
	}, s.fail)
}

// needed returns the bytes of the files that the database needs.
func needed(db *pebble.DB) int64 {
	m := db.Metrics()
	all := m.Total()
	return all.AggregateSize() + int64(m.WAL.PhysicalSize)
}

// bounds returns keys, in their order, between which tables have about that many bytes. The first precedes all keys, and the last follows them.
func bounds(db *pebble.DB, size int64) (keys [][]byte, err error) {
	levels, err := db.SSTables()
	if err != nil {
		return nil, err
	}
	keys = [][]byte{{0}}
	var sum int64
	for _, t := range levels[len(levels)-1] {
		if sum += int64(t.Size); sum >= size && bytes.Compare(keys[len(keys)-1], t.Largest.UserKey) < 0 {
			keys, sum = append(keys, t.Largest.UserKey), 0
		}
	}
	return append(keys, []byte{0xff}), nil
}

// moved has the committer, which may wait for that, look at the files again.
func (s *Store) moved() {
	s.room.stale.Store(true)
	select {
	case s.progress <- struct{}{}:
	default:
	}
	if s.room.limit > 0 {
		s.wake()
	}
}

// crowded reports whether commits have to wait since files exceed the limit by much, and are being rewritten. What replaces other values is not
// refused, and must not fill the disk.
func (s *Store) crowded() bool {
	r := &s.room
	if s.measure(); r.limit == 0 || r.used.Load() < r.limit+r.limit/crowdPart {
		return false
	}
	if s.rewrites() {
		return true
	}
	if r.since < r.limit/crowdPart {
		return false
	}
	s.rewrite()
	return true
}
