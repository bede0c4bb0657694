package durable

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// text is a value. It counts those that are not released.
type text struct {
	s    string
	live *atomic.Int64
	once atomic.Bool
}

func (t *text) Append(b []byte) ([]byte, error) { return append(b, t.s...), nil }
func (t *text) Size() int                       { return len(t.s) }
func (t *text) Release() {
	if t.once.Swap(true) {
		panic("released twice")
	}
	t.live.Add(-1)
}

var unreleased atomic.Int64

func value(s string) *text {
	unreleased.Add(1)
	return &text{s: s, live: &unreleased}
}

func openStore(t testing.TB, fs vfs.FS) *Store {
	t.Helper()
	s, err := Open("/d/store", Options{Owner: "/job:ps/task:0", Log: quiet, FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newMem is a file system on which the directory /d is durable.
func newMem(t testing.TB) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	if err := errors.Join(fs.MkdirAll("/d", 0o700), syncDir(fs, "/"), syncDir(fs, "/d")); err != nil {
		t.Fatal(err)
	}
	return fs
}

func create(t testing.TB, s *Store, name string) *Cell {
	t.Helper()
	c, err := s.Create(Place{"cpu:0", "", "Variable", name}, []byte("about "+name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// end ends a transaction and waits.
func end(x *Tx) error {
	done := make(chan error, 1)
	x.End(func(err error) { done <- err })
	return <-done
}

// set commits one change.
func set(c *Cell, key, v string) error {
	x := c.store.Begin()
	x.Set(c, []byte(key), value(v))
	return end(x)
}

// content returns the entries of all resources by the resource's name and the key.
func content(t testing.TB, s *Store) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	if err := s.Load(func(c *Cell, p Place, about []byte) error {
		entries := map[string]string{}
		all[p.Name] = entries
		if string(about) != "about "+p.Name {
			t.Errorf("%s is described by %q", p.Name, about)
		}
		return c.Each(func(k, v []byte) error {
			entries[string(k)] = string(v)
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	return all
}
