package restore

import (
	"log/slog"
	"testing"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
)

func openStore(t *testing.T, dir string) *durable.Store {
	t.Helper()
	s, err := durable.Open(dir, durable.Options{Owner: "/job:test/task:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDamage puts descriptions and entries into a store that no resource has written, for each kind. None may be restored, and none may panic.
func TestDamage(t *testing.T) {
	descriptions := []string{"", "{", "[]", `"x"`, `{"Kind":77}`, `{"DTypes":[9],"Shapes":[]}`, `{"Width":-1}`, `{"DType":99}`}
	entries := map[string]string{"\x00": "\x00", "": "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "k": "{}", "cxxxxxxxx": "\x02{}", "ixxxxxxxx": "\x02[]", "txxxxxxxx": "\x02{}", "12345678": "\x01\x00",
		"s": "{", "f": "{"}
	for _, kind := range append(Kinds(), "from the future") {
		for _, about := range descriptions {
			refused(t, kind, about, "k", "{}")
		}
		for key, value := range entries {
			refused(t, kind, "{}", key, value)
		}
	}
}

// refused checks that a resource of the kind with one entry is refused, and leaves no memory.
func refused(t *testing.T, kind, about, key, value string) {
	t.Helper()
	dir := t.TempDir()
	s := openStore(t, dir)
	cell, err := s.Create(durable.Place{Device: "d", Container: "jobs", Kind: kind, Name: "n"}, []byte(about))
	if err != nil {
		t.Fatal(err)
	}
	tx := s.Begin()
	tx.Set(cell, []byte(key), durable.Bytes(value))
	ended := make(chan error, 1)
	tx.End(func(err error) { ended <- err })
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir)
	pool := tensor.NewPool("test", 1<<20)
	m := containers.NewManager(nil, "d", "")
	err = s.Load(func(c *durable.Cell, p durable.Place, about []byte) error { return Resource(m, pool, c, p, about) })
	if code := status.CodeOf(err); code != status.DataLoss && code != status.FailedPrecondition {
		t.Errorf("kind %s, description %q, entry %q: %q was restored: %v", kind, about, key, value, err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("kind %s, description %q, entry %q: %q: %d bytes were not released", kind, about, key, value, n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
