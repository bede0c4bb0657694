package checkpoint_test

import (
	"errors"
	"fmt"
	"github.com/troupe-run/troupe/kernels/files"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/checkpoint"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// generation returns the tensors of one of several successive checkpoints, all of the same size.
func generation(n int32) []named {
	return []named{
		{"a", "", kt.I32(kt.S(3), n, n, n)},
		{"p", "4 1 0,2:-", kt.I32(kt.S(2, 1), n, n)},
		{"p", "4 1 2,2:-", kt.I32(kt.S(2, 1), n, n)},
		{"s", "", kt.Str(kt.S(1), fmt.Sprint(n))},
	}
}

// generationOf returns the generation of the checkpoint, or 0 if there is none. All of it must be of one generation.
func generationOf(fsys files.FS, prefix string) (n int32, err error) {
	r, err := checkpoint.Open(fsys, prefix, opaque{})
	if status.CodeOf(err) == status.NotFound {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer r.Close()
	for i, name := range []string{"a", "p"} {
		v, err := r.Read(tensor.Host, name)
		if err != nil {
			return 0, err
		}
		for _, e := range tensor.Of[int32](v) {
			if i == 0 {
				n = e
			}
			if e != n {
				return 0, fmt.Errorf("%s has %v among elements of generation %d", name, e, n)
			}
		}
		v.Release()
	}
	s, err := r.Read(tensor.Host, "s")
	if err == nil && s.Strings()[0] != fmt.Sprint(n) {
		err = fmt.Errorf("s is of generation %s, a of %d", s.Strings()[0], n)
	}
	return n, err
}

// savers are the ways to save a generation.
var savers = map[string]func(fsys files.FS, n int32) error{
	"one": func(fsys files.FS, n int32) error { return tryWrite(fsys, "d/model", generation(n)) },
	"sharded": func(fsys files.FS, n int32) error {
		g := generation(n)
		if err := tryWrite(fsys, fmt.Sprintf("d/temp%d-0", n), g[:2]); err != nil {
			return err
		}
		if err := tryWrite(fsys, fmt.Sprintf("d/temp%d-1", n), g[2:]); err != nil {
			return err
		}
		return checkpoint.Merge(fsys, []string{fmt.Sprintf("d/temp%d-0", n), fmt.Sprintf("d/temp%d-1", n)}, "d/model", false)
	},
}

// TestCrashWhileSaving cuts the power at every change that a save makes to the disk. Afterwards, either the previous checkpoint or the new
// one must be complete, and saving must work again.
func TestCrashWhileSaving(t *testing.T) {
	for first, saveFirst := range savers {
		for second, saveSecond := range savers {
			for _, noLinks := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s-%s-%v", first, second, noLinks), func(t *testing.T) {
					for k := 1; ; k++ {
						d := newDisk()
						d.noLinks = noLinks
						if err := saveFirst(d, 1); err != nil {
							t.Fatal(err)
						}
						d.ops, d.crashAt = 0, k
						err := saveSecond(d, 2)
						if d.ops < k {
							if err != nil || k < 10 {
								t.Fatalf("%d changes, %v", d.ops, err)
							}
							return
						}
						for i, disk := range d.after() {
							what := fmt.Sprintf("after a crash at change %d, state %d", k, i)
							n, err := generationOf(disk, "d/model")
							if err != nil || n != 1 && n != 2 {
								t.Errorf("%s: %d, %v", what, n, err)
								continue
							}
							if err := saveFirst(disk, 3); err != nil {
								t.Errorf("%s: saving again: %v", what, err)
							} else if n, err := generationOf(disk, "d/model"); n != 3 || err != nil {
								t.Errorf("%s: saved again: %d, %v", what, n, err)
							}
							if left := unneeded(t, disk, slices.Collect(maps.Keys(disk.names))); len(left) > 0 {
								t.Errorf("%s: left over after the next save: %q", what, left)
							}
						}
					}
				})
			}
		}
	}
}

var dataFile = regexp.MustCompile(`^(.*)\.data-[0-9]{5}-of-([0-9]{5})$`)

// unneeded returns the files that no checkpoint needs.
func unneeded(t *testing.T, fsys files.FS, names []string) (left []string) {
	t.Helper()
	for _, name := range names {
		m := dataFile.FindStringSubmatch(name)
		if m == nil {
			if strings.Contains(name, ".tempstate") {
				left = append(left, name)
			}
			continue
		}
		if n, err := checkpoint.ShardsOf(fsys, m[1]); err != nil || fmt.Sprintf("%05d", n) != m[2] {
			left = append(left, fmt.Sprintf("%s (of %d, %v)", name, n, err))
		}
	}
	return left
}

// TestCrashWhileSavingFirst is the same without a previous checkpoint.
func TestCrashWhileSavingFirst(t *testing.T) {
	for name, save := range savers {
		for k := 1; ; k++ {
			d := newDisk()
			d.crashAt = k
			err := save(d, 2)
			if d.ops < k {
				if err != nil || k < 5 {
					t.Fatalf("%s: %d changes, %v", name, d.ops, err)
				}
				break
			}
			for i, disk := range d.after() {
				if n, err := generationOf(disk, "d/model"); err != nil || n != 0 && n != 2 {
					t.Errorf("%s: after a crash at change %d, state %d: %d, %v", name, k, i, n, err)
				}
				if err := tryWrite(disk, "d/other", generation(3)); err != nil {
					t.Errorf("%s: after a crash at change %d, state %d: saving another one: %v", name, k, i, err)
				}
				if left := unneeded(t, disk, slices.Collect(maps.Keys(disk.names))); len(left) > 0 {
					t.Errorf("%s: after a crash at change %d, state %d: left over after another save: %q", name, k, i, left)
				}
			}
		}
	}
}

func TestCrashWhileSavingV1(t *testing.T) {
	save := func(d *disk, n int32) error {
		g := generation(n)
		return checkpoint.WriteV1(d, "d/v1", v1Named(t, []named{g[0], g[3]}))
	}
	for k := 1; ; k++ {
		d := newDisk()
		if err := save(d, 1); err != nil {
			t.Fatal(err)
		}
		d.ops, d.crashAt = 0, k
		err := save(d, 2)
		if d.ops < k {
			if err != nil || k < 4 {
				t.Fatalf("%d changes, %v", d.ops, err)
			}
			return
		}
		for i, disk := range d.after() {
			r, err := checkpoint.OpenV1(disk, "d/v1", -1)
			if err != nil {
				t.Errorf("after a crash at change %d, state %d: %v", k, i, err)
				continue
			}
			if _, _, ok, err := r.Lookup("a"); !ok || err != nil {
				t.Fatal(ok, err)
			}
			a, err := r.ReadSlice(tensor.Host, "a", checkpoint.Whole(1))
			if err != nil || !slices.Contains([]int32{1, 2}, tensor.Of[int32](a)[0]) {
				t.Errorf("after a crash at change %d, state %d: %v, %v", k, i, a, err)
			}
			r.Close()
		}
	}
}

// TestFailureWhileSaving makes one change fail while the disk continues to work: the saver must return the error, the previous checkpoint
// must remain, and nothing may be left over.
func TestFailureWhileSaving(t *testing.T) {
	d := newDisk()
	if err := savers["one"](d, 1); err != nil {
		t.Fatal(err)
	}
	before := len(d.names)
	full := &fullDisk{disk: d}
	for full.room = 0; ; full.room++ {
		full.left = full.room
		err := tryWrite(full, "d/model", generation(2))
		n, problem := generationOf(d, "d/model")
		if err == nil {
			if n != 2 || problem != nil {
				t.Errorf("saved, but it is %d, %v", n, problem)
			}
			return
		}
		if !errors.Is(err, errFull) && status.CodeOf(err) != status.Unknown {
			t.Errorf("got %v", err)
		}
		if problem != nil || n != 1 && n != 2 || n == 1 && len(d.names) != before {
			t.Fatalf("with room for %d writes: generation %d, %v, %d files", full.room, n, problem, len(d.names))
		}
		if n == 2 { // the new one was complete; start over
			if err := savers["one"](d, 1); err != nil {
				t.Fatal(err)
			}
			before = len(d.names)
		}
	}
}

var errFull = errors.New("the disk is full")

// fullDisk has room for a number of writes.
type fullDisk struct {
	*disk
	room, left int
}

type fullFile struct {
	files.File
	d *fullDisk
}

func (d *fullDisk) Create(name string) (files.File, error) {
	f, err := d.disk.Create(name)
	return fullFile{f, d}, err
}

func (f fullFile) Write(b []byte) (int, error) {
	if f.d.left--; f.d.left < 0 {
		return 0, errFull
	}
	return f.File.Write(b)
}

// TestConcurrentSaversDoNotMix runs many savers of one prefix, both of one file and of several.
func TestConcurrentSaversDoNotMix(t *testing.T) {
	dir := t.TempDir()
	prefix := filepath.Join(dir, "model")
	var wait sync.WaitGroup
	for n := range int32(8) {
		wait.Go(func() {
			for range 3 {
				g := generation(n + 1)
				if n%2 == 0 {
					if err := tryWrite(files.All, prefix, g); err != nil {
						t.Error(err)
					}
					continue
				}
				list := []string{fmt.Sprintf("%s-%d-a", prefix, n), fmt.Sprintf("%s-%d-b", prefix, n)}
				err := errors.Join(tryWrite(files.All, list[0], g[:2]), tryWrite(files.All, list[1], g[2:]), checkpoint.Merge(files.All, list, prefix, false))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if n, err := generationOf(files.All, prefix); n < 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
