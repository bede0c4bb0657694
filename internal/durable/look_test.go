package durable

import (
	"maps"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/troupe-run/troupe/graph/status"
)

// TestReadOnly reads stores that were closed, that crashed and that are damaged, which changes none of their files.
func TestReadOnly(t *testing.T) {
	mem := newMem(t)
	s := openStore(t, mem)
	for _, name := range []string{"v", "w"} {
		if err := set(create(t, s, name), "k", "value of "+name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := openReadOnly(mem, "/d/store"); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("a store in use: %v", err)
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, fs := range []*vfs.MemFS{mem, crashed} {
		before := files(t, fs)
		s, err := openReadOnly(fs, "/d/store")
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.Directory()
		if err != nil || d.Owner != "/job:ps/task:0" || d.Format != format || d.Closed != (fs == mem) || d.Bytes == 0 || d.Written.IsZero() {
			t.Errorf("the directory is %+v: %v", d, err)
		}
		if all := content(t, s); len(all) != 2 || all["w"]["k"] != "value of w" {
			t.Errorf("it has %v", all)
		}
		if err := set(s.cells[Place{"cpu:0", "", "Variable", "v"}], "k", "other"); status.CodeOf(err) != status.Aborted {
			t.Errorf("a change: %v", err)
		}
		if _, err := s.Create(Place{Name: "x"}, nil); status.CodeOf(err) != status.Aborted {
			t.Errorf("a new resource: %v", err)
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if after := files(t, fs); !maps.EqualFunc(before, after, func(a, b []byte) bool { return string(a) == string(b) }) {
			t.Error("reading has changed the files")
		}
	}
	if n := unreleased.Load(); n != 0 {
		t.Errorf("%d values are not released", n)
	}
	if _, err := openReadOnly(mem, "/d"); status.CodeOf(err) != status.NotFound {
		t.Errorf("a directory without a store: %v", err)
	}
	names, _ := mem.List("/d/store")
	for _, n := range names {
		if strings.HasPrefix(n, "MANIFEST") || strings.HasPrefix(n, "marker.manifest") {
			_ = mem.Remove("/d/store/" + n)
		}
	}
	if _, err := openReadOnly(mem, "/d/store"); status.CodeOf(err) != status.DataLoss {
		t.Errorf("a damaged store: %v", err)
	}
}
