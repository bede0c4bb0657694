package durable

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
)

const (
	defaultReserve  = 256 << 20
	defaultPatience = time.Second
	spaceInterval   = time.Second

	// An idle store has a memtable of 256 KiB. Each that is filled is followed by one of twice the size, up to memtableBytes.
	memtableBytes = 8 << 20
	cacheBytes    = 1 << 20
	// backlogBytes of memtables and large batches may wait for their flush, each with its WAL, before commits wait.
	backlogBytes = 4 * memtableBytes
	// lookBytes are written between two looks at the backlog.
	lookBytes = 1 << 20
	// backlogSublevels of level 0 may wait for a compaction before commits wait.
	backlogSublevels = 24
)

// Options are the options of a store.
type Options struct {
	// Owner is the cluster and task that the directory belongs to, such as "/job:ps/task:0". Another owner is refused.
	Owner string
	// Log must not be nil.
	Log *slog.Logger
	// Reserve is the free bytes of the disk below which Admits refuses what adds something; 0 is 256 MiB. What has been changed by then is
	// still written.
	Reserve int64
	// Limit is the bytes of all files beyond which Admits refuses what adds something; 0 is none.
	Limit int64
	// Compaction is how many bytes a second compactions write; 0 is without a bound. Compactions for which commits wait have none.
	Compaction int64
	// FS is the file system; nil is the operating system's.
	FS vfs.FS
	// Patience is how long a transaction that has ended waits for others that it depends on; 0 is one second.
	Patience time.Duration
}

// Store is the durable state of a task, in a directory.
type Store struct {
	dir      string
	log      *slog.Logger
	owner    string
	patience time.Duration
	guard    *guard
	lock     io.Closer
	readOnly *owner        // what the owner file says, if the store is only read
	work     chan struct{} // wakes the committer
	progress chan struct{} // pebble flushed or compacted
	finished chan struct{} // the committer has ended

	life context.Context // ends when the database is closed
	die  context.CancelFunc

	failure atomic.Pointer[refused] // for good
	pending atomic.Int64
	room    room

	gate Gate

	dbMu sync.RWMutex // write-locked to close the database
	db   *pebble.DB   // nil when it is closed

	statsMu  sync.Mutex
	stats    Stats
	syncTime time.Duration // all of it; guarded by statsMu

	// Only the committer uses these.
	batches     uint64
	buffer      []byte
	applying    bool // a call of pebble has begun and has not returned
	unlogged    int  // splits
	splitLogged time.Time
	sinceLook   int64 // bytes written since throttle looked

	mu       sync.Mutex
	cells    map[Place]*Cell
	nextCell uint64
	loaded   []described // were there after Open
	created  []described // are not on disk yet
	deleted  []droppedCell
	queue    []*unit // ended, to be looked at by the committer
	blocked  []*unit // ended, in the order in which they began to wait for others; some may be written by now
	changing int     // changes of several keys that have begun and not ended
	found    []*unit // memory for closure
	mark     uint64
	closing  bool // Close was called
	stopped  bool // the committer takes nothing new any more
}

type refused struct{ err error }

// Stats are figures of a store.
type Stats struct {
	Commits      int64 // batches written
	Transactions int64 // that had changes to write at their end
	Bytes        int64 // in the batches
	Pending      int64 // bytes of changes that are not on disk, as far as their values tell
	Disk         int64 // bytes of the store's files
	LastSync     time.Duration
	MeanSync     time.Duration
	Splits       int64 // parts of transactions that were written before the transaction's end
	Resources    int
}

// Open opens the store in a directory, which it makes if there is none. A directory is refused if it is used by another process, belongs to
// another owner, has a newer format (FAILED_PRECONDITION), or is damaged (DATA_LOSS).
func Open(dir string, o Options) (*Store, error) {
	s := &Store{
		dir: dir, log: o.Log, owner: o.Owner, patience: cmp.Or(o.Patience, defaultPatience),
		work: make(chan struct{}, 1), progress: make(chan struct{}, 1), finished: make(chan struct{}), cells: map[Place]*Cell{},
	}
	s.life, s.die = context.WithCancel(context.Background())
	s.room.limit, s.room.reserve, s.room.memory = o.Limit, cmp.Or(o.Reserve, defaultReserve), tensor.NewPool("durable changes", 0)
	s.room.free.Store(math.MaxInt64)
	s.room.stale.Store(true)
	s.guard = &guard{FS: cmp.Or[vfs.FS](o.FS, vfs.Default), pace: newPace(o.Compaction), operations: operations{log: s.log}, failed: func(op, name string, err error) {
		s.fail(status.Internalf("the durable store in %s has failed: %s %s: %v", dir, op, name, err))
	}}
	if err := s.open(); err != nil {
		s.guard.freeze()
		s.closeDatabase()
		return nil, errors.Join(err, s.unlock())
	}
	s.checkSpace(time.Now())
	contain.Go(s.log, "The durable store", func() {
		defer close(s.finished)
		s.run()
	}, s.fail)
	return s, nil
}

// unlock gives up the directory. Nothing of the store is written after it.
func (s *Store) unlock() error {
	s.guard.operations.stop()
	if s.lock == nil {
		return nil
	}
	lock := s.lock
	s.lock = nil
	return lock.Close()
}

// open does the work of Open.
func (s *Store) open() error {
	if err := makeDir(s.guard, s.dir); err != nil {
		return err
	}
	if err := s.failedOpen(); err != nil {
		return err
	}
	lock, err := pebble.LockDirectory(s.dir, s.guard)
	if err != nil {
		return status.Errorf(status.FailedPrecondition, "the durable store in %s cannot be locked (%v): another process uses it. Stop that process; each task needs a directory of its own", s.dir, err)
	}
	s.lock = lock
	was, err := s.claim()
	if err != nil {
		return err
	}
	if was.state != stateNew {
		if err := s.inspect(lock); err != nil {
			return cmp.Or(s.failedOpen(), s.readError(err))
		}
	}
	if err := contain.Run(s.log, "The opening of the durable store", func() (err error) {
		s.db, err = pebble.Open(s.dir, s.options(lock, was.state == stateNew))
		return err
	}); err != nil {
		return cmp.Or(s.failedOpen(), s.readError(err))
	}
	if err := s.load(was); err != nil {
		return cmp.Or(s.failedOpen(), s.readError(err))
	}
	if err := writeOwner(s.guard, s.dir, owner{format, stateOpen, s.batches, s.owner}); err != nil {
		return err
	}
	return s.failedOpen()
}

// inspect looks for damage that pebble does not see.
func (s *Store) inspect(lock *pebble.Lock) error {
	problems, err := scan(s.guard, s.dir)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return damaged(s.dir, problems[0].String())
	}
	return contain.Run(s.log, "The inspection of the durable store", func() (err error) {
		db, err := s.openForReading(lock)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		lost, err := checkBatches(s.guard, s.dir, db)
		if err == nil && lost != "" {
			err = damaged(s.dir, lost)
		}
		return err
	})
}

// openForReading opens the database without writing to it.
func (s *Store) openForReading(lock *pebble.Lock) (*pebble.DB, error) {
	o := s.options(lock, false)
	o.ReadOnly = true
	return pebble.Open(s.dir, o)
}

func (s *Store) failedOpen() error {
	if f := s.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// claim checks that the directory is this owner's, or makes it so.
func (s *Store) claim() (owner, error) {
	was, found, err := readOwner(s.guard, s.dir)
	if err != nil {
		return was, err
	}
	names, err := s.guard.List(s.dir)
	if err != nil {
		return was, status.Internalf("can't list %s: %v", s.dir, err)
	}
	files := slices.DeleteFunc(names, func(n string) bool { return !databaseFile(n) })
	switch {
	case !found && len(files) > 0:
		return was, status.Errorf(status.DataLoss, "%s has files of a durable store, such as %s, but no file %s; restore it from a backup, or use another directory", s.dir, files[0], ownerFile)
	case found && was.name != s.owner:
		return was, status.Errorf(status.FailedPrecondition, "the durable store in %s belongs to %s, not to %s; use another directory for each task", s.dir, was.name, s.owner)
	case found && was.state != stateNew:
		return was, s.checkMarkers(names)
	}
	for _, n := range files { // of a creation that was interrupted: nothing in them was acknowledged
		if err := s.guard.Remove(s.guard.PathJoin(s.dir, n)); err != nil {
			return was, status.Internalf("can't remove the unfinished durable store in %s: %v", s.dir, err)
		}
	}
	was = owner{format, stateNew, 0, s.owner}
	if err := writeOwner(s.guard, s.dir, was); err != nil {
		return was, err
	}
	return was, s.failedOpen()
}

// checkMarkers refuses a store whose markers are lost: pebble would begin an empty one.
func (s *Store) checkMarkers(files []string) error {
	for _, marker := range []string{"marker.manifest.", "marker.format-version."} {
		if !slices.ContainsFunc(files, func(n string) bool { return strings.HasPrefix(n, marker) }) {
			return damaged(s.dir, "its file "+marker+"* is lost")
		}
	}
	return nil
}

// databaseFile reports whether a name is that of one of pebble's files, other than its lock.
func databaseFile(name string) bool {
	for _, prefix := range []string{"MANIFEST-", "OPTIONS-", "marker.", "temporary.", "CURRENT"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	for _, suffix := range []string{".sst", ".log", ".blob"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

func damaged(dir, what string) error {
	return status.Errorf(status.DataLoss, "the durable store in %s is damaged: %s; restore the directory from a backup, or remove it to start without its state", dir, what)
}

// readError is the error of a read of the database.
func (s *Store) readError(err error) error {
	var known *status.Error
	var system *fs.PathError
	if errors.As(err, &known) {
		return err
	}
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		return damaged(s.dir, fmt.Sprintf("%s: %v", info.Path, info.Details))
	}
	if errors.As(err, &system) && !errors.Is(err, fs.ErrNotExist) && !pebble.IsCorruptionError(err) {
		return status.Internalf("can't read the durable store in %s: %v", s.dir, err)
	}
	return damaged(s.dir, err.Error())
}

func (s *Store) options(lock *pebble.Lock, create bool) *pebble.Options {
	o := &pebble.Options{
		FS:                          s.guard,
		Lock:                        lock,
		Logger:                      pebbleLog{s},
		EventListener:               s.listener(),
		FormatMajorVersion:          pebble.FormatTableFormatV6,
		CacheSize:                   cacheBytes,
		MemTableSize:                memtableBytes,
		MemTableStopWritesThreshold: 1 << 10, // throttle does it: a writer that pebble stalls hangs if flushes fail
		L0StopWritesThreshold:       1 << 10,
		MaxOpenFiles:                256,
		ErrorIfExists:               create,
		ErrorIfNotExists:            !create,
	}
	o.Experimental.FileCacheShards = 1
	if s.room.limit > 0 {
		// A log that is kept to be written again has the size of the largest batch that it ever had.
		o.Cleaner, o.MaxManifestFileSize = removing{}, manifestBytes
	}
	return o
}

func (s *Store) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			s.fail(status.Internalf("the durable store in %s has failed: %v", s.dir, err))
		},
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			s.fail(damaged(s.dir, fmt.Sprintf("%s: %v", i.Path, i.Details)))
		},
		FlushEnd:      func(pebble.FlushInfo) { s.moved() },
		CompactionEnd: func(pebble.CompactionInfo) { s.moved() },
		TableDeleted:  func(pebble.TableDeleteInfo) { s.moved() },
		WALDeleted:    func(pebble.WALDeleteInfo) { s.moved() },
	}
}

// load reads the resources, and removes entries of those that do not exist.
func (s *Store) load(was owner) error {
	numbers := map[uint64]bool{}
	if err := s.readRecords(was, numbers); err != nil {
		return err
	}
	return s.removeOrphans(numbers)
}

// readRecords reads the resources, and adds the numbers of their cells.
func (s *Store) readRecords(was owner, numbers map[uint64]bool) (err error) {
	if s.batches, err = s.number(metaBatches); err != nil {
		return err
	}
	if s.batches < was.batches || was.state == stateClosed && s.batches != was.batches {
		return damaged(s.dir, fmt.Sprintf("it has %d of %d batches that were written", s.batches, was.batches))
	}
	if s.nextCell, err = s.number(metaCells); err != nil {
		return err
	}
	s.nextCell = max(s.nextCell, 1)
	if err := each(s.db, []byte(recordStart), []byte(recordEnd), func(k, v []byte) error {
		p, about, err := parseRecord(v)
		if err != nil || len(k) != entryPrefix {
			return damaged(s.dir, fmt.Sprintf("record %x is malformed", k))
		}
		c := &Cell{store: s, place: p, number: binary.BigEndian.Uint64(k[1:])}
		if s.cells[p] != nil || c.number >= s.nextCell {
			return damaged(s.dir, fmt.Sprintf("record %x contradicts others", k))
		}
		numbers[c.number] = true
		s.cells[p] = c
		s.loaded = append(s.loaded, described{c, about})
		return nil
	}); err != nil {
		return err
	}
	slices.SortFunc(s.loaded, func(a, b described) int { return a.cell.place.compare(b.cell.place) })
	return nil
}

func (s *Store) number(key string) (uint64, error) {
	v, closer, err := s.db.Get([]byte(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = closer.Close() }() // frees the value's memory, which does not fail
	if len(v) != 8 {
		return 0, damaged(s.dir, "record "+key+" is malformed")
	}
	return binary.BigEndian.Uint64(v), nil
}

// removeOrphans deletes the entries of cells other than these. It seeks once a cell.
func (s *Store) removeOrphans(cells map[uint64]bool) (err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte(entryStart), UpperBound: []byte(entryEnd)})
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, it.Close()) }()
	for ok := it.First(); ok; {
		if len(it.Key()) < entryPrefix {
			return damaged(s.dir, fmt.Sprintf("entry %x is malformed", it.Key()))
		}
		n := binary.BigEndian.Uint64(it.Key()[1:])
		if !cells[n] {
			if err := s.db.DeleteRange(entriesOf(n), entriesOf(n+1), pebble.Sync); err != nil {
				return err
			}
		}
		ok = it.SeekGE(entriesOf(n + 1))
	}
	return it.Error()
}

// read calls f with the database, which is not closed meanwhile.
func (s *Store) read(f func(db *pebble.DB) error) error {
	s.dbMu.RLock()
	defer s.dbMu.RUnlock()
	if s.db == nil {
		return s.refusal()
	}
	err := contain.Run(s.log, "A read of the durable store", func() error { return f(s.db) })
	if pebble.IsCorruptionError(err) {
		return s.readError(err)
	}
	return err
}

// Close waits for the commits that were begun, and closes the store. Later ones fail with ABORTED.
func (s *Store) Close() error {
	if s.readOnly != nil {
		s.closeDatabase()
		return s.unlock()
	}
	s.mu.Lock()
	again := s.closing
	s.closing = true
	s.mu.Unlock()
	s.wake()
	<-s.finished
	if again {
		return nil
	}
	if s.failure.Load() == nil {
		// Pebble's WAL ends with this. The state is written last: it promises that all batches are there.
		s.closeDatabase()
		if s.failure.Load() == nil {
			_ = writeOwner(s.guard, s.dir, owner{format, stateClosed, s.batches, s.owner}) // the guard reports errors
		}
	}
	s.closeDatabase()
	return errors.Join(s.failedOpen(), s.unlock())
}

// closeDatabase closes pebble. After a panic in a write pebble's locks may be held; then the database is left open.
func (s *Store) closeDatabase() {
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	db := s.db
	s.db = nil
	s.die()
	if db == nil || s.applying {
		return
	}
	s.guard.pace.lift()
	if ended := s.room.rewriting; ended != nil {
		<-ended
	}
	if err := contain.Run(s.log, "The closing of the durable store", db.Close); err != nil {
		s.fail(status.Internalf("can't close the durable store in %s: %v", s.dir, err))
	}
}

// fail makes the store fail closed: nothing more is written, and all that is not acknowledged fails with the first such error. Pebble may
// call it with any of its locks held.
func (s *Store) fail(err error) {
	if !s.failure.CompareAndSwap(nil, &refused{err}) {
		return
	}
	s.guard.freeze()
	s.log.Error("The durable store has failed; the task refuses changes until it is restarted", "directory", s.dir, "error", err)
	s.wake()
	select {
	case s.progress <- struct{}{}:
	default:
	}
}

// throttle waits while flushes and compactions lag behind, or files exceed the limit by much.
func (s *Store) throttle() {
	if s.sinceLook < lookBytes {
		return // too little was written to change anything
	}
	lower := func() {}
	for s.failure.Load() == nil {
		m := s.db.Metrics()
		if m.MemTable.Size < backlogBytes && m.Levels[0].Sublevels < backlogSublevels && !s.crowded() {
			s.sinceLook = 0
			break
		}
		lower()
		lower = s.guard.pace.lift() // what commits wait for has no bound
		<-s.progress
	}
	lower()
}

func (s *Store) count(f func(*Stats)) {
	s.statsMu.Lock()
	defer s.statsMu.Unlock()
	f(&s.stats)
}

// Stats returns the store's figures.
func (s *Store) Stats() Stats {
	s.statsMu.Lock()
	st, all := s.stats, s.syncTime
	s.statsMu.Unlock()
	st.Pending = s.pending.Load()
	if st.Commits > 0 {
		st.MeanSync = all / time.Duration(st.Commits)
	}
	s.mu.Lock()
	st.Resources = len(s.cells)
	s.mu.Unlock()
	st.Disk, _ = s.size() // 0 if the directory cannot be read
	return st
}

// manifestBytes is the size at which pebble begins a new manifest if there is a limit.
const manifestBytes = 1 << 20

// removing has pebble remove each file that it does not need any more, logs included: it overwrites none if a cleaner, such as that of archives,
// needs what is in them.
type removing struct {
	pebble.DeleteCleaner
	needing
}

type needing struct{ pebble.ArchiveCleaner }

// pebbleLog passes on pebble's messages.
type pebbleLog struct{ s *Store }

func (l pebbleLog) Infof(format string, args ...any) {
	l.s.log.Debug("from the store's database", "message", fmt.Sprintf(format, args...))
}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.s.log.Warn("an error of the store's database", "error", fmt.Sprintf(format, args...))
}

// Fatalf makes the store fail closed. Pebble expects that it does not return; what pebble does afterwards reaches no disk, since the guard is
// frozen, and no transaction is acknowledged.
func (l pebbleLog) Fatalf(format string, args ...any) {
	l.s.fail(status.Internalf("the durable store in %s has failed: %s", l.s.dir, fmt.Sprintf(format, args...)))
}
