package reader

import (
	"fmt"
	"github.com/troupe-run/troupe/kernels/files"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
)

// recordFiles creates files of records and returns the pattern of their names.
func recordFiles(t *testing.T, files, records int) (pattern string, all []string) {
	t.Helper()
	dir := t.TempDir()
	for i := range files {
		var content []byte
		for j := range records {
			r := fmt.Sprintf("%d-%d", i, j)
			all = append(all, r)
			content = tfrecord.Append(content, []byte(r))
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d", i)), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(all)
	return dir + "/f*", all
}

func take(t *testing.T, y *Yielder, n int) ([]string, error) {
	t.Helper()
	type got struct {
		records []string
		err     error
	}
	c := make(chan got, 1)
	y.Yield(t.Context(), files.All, n, func(records []string, err error) { c <- got{records, err} })
	g := receive(t, c)
	return g.records, g.err
}

// Each epoch has each record once, in its own order.
func TestEpochs(t *testing.T) {
	for _, c := range []struct{ files, records, buffer, parallelism, batch int }{
		{1, 1, 1, 1, 1}, {10, 10, 20, 3, 7}, {10, 10, 2000, 20, 10}, {5, 40, 1, 2, 3}, {1, 1, 100, 1, 5},
	} {
		pattern, all := recordFiles(t, c.files, c.records)
		y := NewYielder(YielderOptions{Patterns: pattern, Seed: 1, Shift: 0.3, Buffer: c.buffer, Parallelism: c.parallelism})
		var got []string
		for len(got) < 3*len(all) {
			records, err := take(t, y, c.batch)
			if err != nil || len(records) != c.batch {
				t.Fatal(len(records), err)
			}
			got = append(got, records...)
		}
		for epoch := range slices.Chunk(got[:3*len(all)], len(all)) {
			sorted := slices.Sorted(slices.Values(epoch))
			if !slices.Equal(sorted, all) {
				t.Fatalf("%+v: an epoch has %q", c, epoch)
			}
			if c.buffer > 10 && len(all) > 20 && slices.Equal(sorted, epoch) {
				t.Errorf("%+v: an epoch is in order", c)
			}
		}
		y.Close()
		receive(t, y.Done())
	}
}

func TestYielderErrors(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none*")
	y := NewYielder(YielderOptions{Patterns: none, Buffer: 1, Parallelism: 1})
	for range 2 {
		if _, err := take(t, y, 1); status.CodeOf(err) != status.NotFound || err.Error() != "Found no files at "+none {
			t.Errorf("of no files: %v", err)
		}
	}
	y.Close()
	receive(t, y.Done())

	empty := write(t, "empty", nil)
	y = NewYielder(YielderOptions{Patterns: empty, Buffer: 1, Parallelism: 1})
	if _, err := take(t, y, 1); status.CodeOf(err) != status.NotFound {
		t.Errorf("of a file without records: %v", err)
	}
	y.Close()
	receive(t, y.Done())

	y = NewYielder(YielderOptions{Patterns: write(t, "bad", []byte("no record at all")), Buffer: 1, Parallelism: 1})
	if _, err := take(t, y, 1); status.CodeOf(err) != status.DataLoss {
		t.Errorf("of a file that is no record file: %v", err)
	}
	y.Close()
	receive(t, y.Done())
}

// Closing a yielder releases its waiters and its files, even while its buffer is full.
func TestYielderCloses(t *testing.T) {
	pattern, _ := recordFiles(t, 3, 50)
	y := NewYielder(YielderOptions{Patterns: pattern, Buffer: 4, Parallelism: 2})
	if _, err := take(t, y, 1); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 2)
	cancel := y.Yield(t.Context(), files.All, 1<<20, func(_ []string, err error) { got <- err })
	cancel(nil)
	if err := receive(t, got); status.CodeOf(err) != status.Cancelled {
		t.Errorf("cancelled: %v", err)
	}
	y.Yield(t.Context(), files.All, 1<<20, func(_ []string, err error) { got <- err })
	y.Close()
	if err := receive(t, got); status.CodeOf(err) != status.Aborted {
		t.Errorf("closed: %v", err)
	}
	receive(t, y.Done())
	idle := NewYielder(YielderOptions{})
	idle.Close()
	receive(t, idle.Done())
}
