package durable

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
)

// damagedStore is a store with tables and WALs; closed is false if the process crashed.
func damagedStore(t *testing.T, closed bool) (*vfs.MemFS, map[string]string) {
	mem := newMem(t)
	want := map[string]string{}
	for range 2 {
		s := openStore(t, mem)
		var c *Cell
		_ = s.Load(func(l *Cell, _ Place, _ []byte) error {
			c = l
			return nil
		})
		if c == nil {
			c = create(t, s, "v")
		}
		for i := range 30 {
			key, v := fmt.Sprint("k", len(want)), strings.Repeat(string(rune('a'+i%26)), 20000)
			if i%3 == 0 {
				v = key
			}
			if err := set(c, key, v); err != nil {
				t.Fatal(err)
			}
			want[key] = v
		}
		crashed := mem.CrashClone(vfs.CrashCloneCfg{})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if !closed {
			mem = crashed
		}
	}
	return mem, want
}

func files(t *testing.T, fs vfs.FS) map[string][]byte {
	t.Helper()
	names, err := fs.List("/d/store")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, n := range names {
		if all[n], err = readFile(fs, "/d/store/"+n); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func restore(t *testing.T, all map[string][]byte) *vfs.MemFS {
	t.Helper()
	mem := newMem(t)
	if err := mem.MkdirAll("/d/store", 0o700); err != nil {
		t.Fatal(err)
	}
	for n, b := range all {
		f, err := mem.Create("/d/store/"+n, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(slices.Clone(b))
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return mem
}

// outcome opens a damaged store: "refused" (by Open or a read), "whole", "lost" (something acknowledged is missing) or "wrong".
func outcome(t *testing.T, all map[string][]byte, want map[string]string) (kind string, err error) {
	fs := restore(t, all)
	s, err := Open("/d/store", Options{Owner: "/job:ps/task:0", Log: quiet, FS: fs})
	if err != nil {
		return "refused", err
	}
	defer func() { _ = s.Close() }()
	got := map[string]string{}
	if err := s.Load(func(c *Cell, _ Place, _ []byte) error {
		return c.Each(func(k, v []byte) error {
			got[string(k)] = string(v)
			return nil
		})
	}); err != nil {
		return "refused", err
	}
	for k, v := range got {
		if want[k] != v {
			return "wrong", nil
		}
	}
	if len(got) < len(want) {
		return fmt.Sprint("lost ", len(want)-len(got)), nil
	}
	return "whole", nil
}

// TestDamage flips and truncates each file at a sample of its bytes.
func TestDamage(t *testing.T) {
	samples := 12
	switch {
	case extent.Full():
		samples = 2000
	case extent.Check():
		samples = 60
	}
	if extent.RaceDetector {
		samples = 5
	}
	for _, closed := range []bool{true, false} {
		fs, want := damagedStore(t, closed)
		all := files(t, fs)
		tally := map[string]int{}
		for name, b := range all {
			for i := range samples {
				at := (i*len(b) + len(b)/2) / samples
				if i < 2 && len(b) > 0 {
					at = len(b) - 1 - i*20
				}
				if at >= len(b) || at < 0 {
					continue
				}
				for _, kind := range []string{"flip", "truncate"} {
					damaged := map[string][]byte{}
					for n, b := range all {
						damaged[n] = b
					}
					d := slices.Clone(b)
					if kind == "flip" {
						d[at] ^= 1 << (i % 8)
					} else {
						d = d[:at]
					}
					damaged[name] = d
					got, err := outcome(t, damaged, want)
					tally[kind+" "+got]++
					what := fmt.Sprintf("closed: %v, %s of byte %d of %d of %s", closed, kind, at, len(b), name)
					switch {
					case got == "refused" && status.CodeOf(err) != status.DataLoss:
						t.Errorf("%s: %v", what, err)
					case got == "refused" && !strings.Contains(err.Error(), "/d/store"):
						t.Errorf("%s: no name in %v", what, err)
					case got == "wrong", closed && strings.HasPrefix(got, "lost"):
						t.Errorf("%s: %s", what, got)
					case strings.HasPrefix(got, "lost"):
						t.Logf("%s: %s", what, got)
						if kind == "flip" && got != "lost 1" || !strings.HasSuffix(name, ".log") {
							t.Errorf("%s: %s", what, got)
						}
					}
				}
			}
			without := map[string][]byte{}
			for n, b := range all {
				if n != name {
					without[n] = b
				}
			}
			got, err := outcome(t, without, want)
			tally["without "+got]++
			if got != "refused" && got != "whole" {
				t.Logf("closed: %v, without %s: %s %v", closed, name, got, err)
				if closed || !strings.HasSuffix(name, ".log") {
					t.Errorf("closed: %v, without %s: %s %v", closed, name, got, err)
				}
			}
		}
		t.Log(tally)
	}
}
