package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
)

// Problem is damage of a store.
type Problem struct {
	File string // its path, or the directory's if no file is known
	Text string // what is wrong
}

func (p Problem) String() string { return p.File + ": " + p.Text }

// Check reads every record of a store that is not in use, and returns what is damaged. It changes nothing. The error says why the store
// could not be read.
func Check(dir string) ([]Problem, error) { return check(vfs.Default, dir) }

func check(f vfs.FS, dir string) (found []Problem, err error) {
	s, lock, err := newReader(f, dir)
	switch {
	case status.CodeOf(err) == status.DataLoss:
		return []Problem{{f.PathJoin(dir, ownerFile), err.Error()}}, nil
	case err != nil:
		return nil, err
	}
	defer func() { err = errors.Join(err, s.unlock()) }()
	was := *s.readOnly
	if was.state == stateNew {
		return nil, nil
	}
	if found, err = scan(f, dir); err != nil {
		return nil, err
	}
	tables, err := checkTables(f, dir, s.options(lock, false))
	if err != nil {
		return nil, err
	}
	found = append(found, tables...)
	if err := s.checkRecords(lock, was); err != nil && len(found) == 0 {
		found = append(found, s.problem(err))
	}
	return found, nil
}

// problem is the damage that an error reports.
func (s *Store) problem(err error) Problem {
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		return Problem{info.Path, fmt.Sprint(info.Details)}
	}
	return Problem{s.dir, err.Error()}
}

// checkRecords reads all records through pebble.
func (s *Store) checkRecords(lock *pebble.Lock, was owner) error {
	return contain.Run(s.log, "The check of the durable store", func() (err error) {
		if err := s.findMarkers(); err != nil {
			return err
		}
		db, err := s.openForReading(lock)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		if lost, err := checkBatches(s.guard, s.dir, db); err != nil || lost != "" {
			return errors.Join(err, errors.New(lost))
		}
		if err := db.CheckLevels(nil); err != nil {
			return err
		}
		s.db = db
		if err := s.readRecords(was, map[uint64]bool{}); err != nil {
			return err
		}
		return each(db, []byte(entryStart), []byte(entryEnd), func(k, _ []byte) error {
			if len(k) < entryPrefix {
				return fmt.Errorf("entry %x is malformed", k)
			}
			return nil
		})
	})
}

// checkTables verifies the checksum of each block of the tables.
func checkTables(f vfs.FS, dir string, o *pebble.Options) (found []Problem, err error) {
	names, err := f.List(dir)
	if err != nil {
		return nil, err
	}
	o.EnsureDefaults()
	for _, n := range names {
		if !strings.HasSuffix(n, ".sst") {
			continue
		}
		path := f.PathJoin(dir, n)
		err := contain.Run(slog.New(slog.DiscardHandler), "The check of "+path, func() error { return checkTable(f, path, o.MakeReaderOptions()) })
		var system *fs.PathError
		if errors.As(err, &system) {
			return nil, err
		}
		if err != nil {
			found = append(found, Problem{path, err.Error()})
		}
	}
	return found, nil
}

func checkTable(f vfs.FS, path string, o sstable.ReaderOptions) error {
	file, err := f.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	r, err := sstable.NewReader(context.Background(), readable, o) // closes readable if it fails
	if err != nil {
		return err
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}
