package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/troupe-run/troupe/graph/status"
)

func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	o := Options{Owner: "/job:ps/task:0", Log: quiet}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
	a, b := create(t, s, "b"), create(t, s, "a")
	if _, err := s.Create(Place{"cpu:0", "", "Variable", "a"}, nil); status.CodeOf(err) != status.AlreadyExists {
		t.Errorf("a second resource at a place: %v", err)
	}
	x := s.Begin()
	x.Set(a, []byte("k1"), value("1"))
	x.Set(a, []byte("k1"), value("2"))
	x.Set(b, []byte("k"), value("3"))
	x.Set(b, nil, value(""))
	x.Set(b, []byte("gone"), value("4"))
	x.Delete(b, []byte("gone"))
	if !x.Changed() {
		t.Error("the transaction has no changes")
	}
	if err := end(x); err != nil {
		t.Fatal(err)
	}
	if x.Changed() {
		t.Error("the transaction has changes after its end")
	}
	for _, refused := range []struct {
		o    Options
		text string
	}{{o, "another process"}, {Options{Owner: "/job:ps/task:1", Log: quiet}, "another process"}} {
		if _, err := Open(dir, refused.o); status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), refused.text) {
			t.Errorf("a store in use: %v", err)
		}
	}
	if st := s.Stats(); st.Transactions != 1 || st.Resources != 2 || st.Pending != 0 || st.Disk == 0 || st.LastSync == 0 || st.MeanSync == 0 || st.Bytes == 0 {
		t.Errorf("%+v", st)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if found, err := Check(dir); err != nil || len(found) > 0 {
		t.Errorf("Check: %v, %v", found, err)
	}
	if _, err := Open(dir, Options{Owner: "/job:ps/task:1", Log: quiet}); status.CodeOf(err) != status.FailedPrecondition ||
		!strings.Contains(err.Error(), "/job:ps/task:0, not to /job:ps/task:1") {
		t.Errorf("another owner: %v", err)
	}
	if s, err = Open(dir, o); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	var names []string
	_ = s.Load(func(c *Cell, p Place, _ []byte) error {
		names = append(names, p.Name)
		return nil
	})
	if fmt.Sprint(names) != "[a b]" {
		t.Errorf("the resources are %v", names)
	}
}

// TestNewDirectories checks that what was acknowledged in a directory whose parents were made with it survives a loss of power.
func TestNewDirectories(t *testing.T) {
	mem := newMem(t)
	open := func(fs vfs.FS) (*Store, error) {
		return Open("/d/a/b/store", Options{Owner: "/job:ps/task:0", Log: quiet, FS: fs})
	}
	s, err := open(mem)
	if err != nil {
		t.Fatal(err)
	}
	if err := set(create(t, s, "v"), "k", "1"); err != nil {
		t.Fatal(err)
	}
	clone := mem.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = open(clone); err != nil {
		t.Fatal(err)
	}
	if got := content(t, s)["v"]["k"]; got != "1" {
		t.Errorf("after a loss of power, k is %q", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRefusals(t *testing.T) {
	text := owner{format, stateClosed, 3, "o"}.encode()
	if o, err := parseOwner(text); err != nil || o != (owner{format, stateClosed, 3, "o"}) {
		t.Errorf("%v, %v", o, err)
	}
	for i := range text {
		d := append([]byte{}, text...)
		d[i] ^= 4
		if o, err := parseOwner(d); err == nil {
			t.Errorf("with byte %d changed it is %v", i, o)
		}
	}
	write := func(fs vfs.FS, name string, b []byte) {
		f, err := fs.Create("/d/store/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(b)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what   string
		damage func(fs vfs.FS)
		code   status.Code
		text   string
	}{
		{"a newer format", func(fs vfs.FS) { write(fs, ownerFile, owner{format + 1, stateOpen, 0, "o"}.encode()) }, status.FailedPrecondition, "format 2"},
		{"no owner", func(fs vfs.FS) { _ = fs.Remove("/d/store/" + ownerFile) }, status.DataLoss, "no file OWNER"},
		{"a damaged owner", func(fs vfs.FS) { write(fs, ownerFile, text[:30]) }, status.DataLoss, "OWNER"},
		{"no marker", func(fs vfs.FS) {
			names, _ := fs.List("/d/store")
			for _, n := range names {
				if strings.HasPrefix(n, "marker.manifest") {
					_ = fs.Remove("/d/store/" + n)
				}
			}
		}, status.DataLoss, "marker.manifest"},
	} {
		mem := newMem(t)
		s := openStore(t, mem)
		_ = set(create(t, s, "v"), "k", "v")
		_ = s.Close()
		c.damage(mem)
		if _, err := Open("/d/store", Options{Owner: "/job:ps/task:0", Log: quiet, FS: mem}); status.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestCheckFindsDamage(t *testing.T) {
	fs, _ := damagedStore(t, true)
	all := files(t, fs)
	for name, b := range all {
		if !strings.HasSuffix(name, ".sst") && name != ownerFile && !strings.HasPrefix(name, "MANIFEST") && !strings.HasSuffix(name, ".log") {
			continue
		}
		found, err := check(fs, "/d/store")
		if err != nil || len(found) > 0 {
			t.Fatalf("a whole store: %v, %v", found, err)
		}
		if len(b) < 1000 && name != ownerFile {
			continue
		}
		b[len(b)/3] ^= 1
		found, err = check(restore(t, all), "/d/store")
		if err != nil || len(found) == 0 && !strings.HasSuffix(name, ".log") || len(found) > 0 && !strings.HasSuffix(found[0].File, name) {
			t.Errorf("damage of %s: %v, %v", name, found, err)
		}
		b[len(b)/3] ^= 1
	}
}

func TestSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMem(t)
		s := openStore(t, mem)
		c := create(t, s, "v")
		mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1000, TotalBytes: 1 << 40})
		if err := set(c, "k", "1"); err != nil {
			t.Errorf("what was changed before the disk was full: %v", err)
		}
		synctest.Wait()
		if err := s.Err(); status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), "1000 bytes") {
			t.Errorf("on a full disk: %v", err)
		}
		mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 39, TotalBytes: 1 << 40})
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		if err := s.Err(); err != nil {
			t.Errorf("a second after there is space: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestPatience checks when a transaction is split for one that depends on it.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMem(t)
		s := openStore(t, mem)
		c := create(t, s, "v")
		acked := func(x *Tx) *atomic.Bool {
			ok := new(atomic.Bool)
			x.End(func(err error) {
				if err != nil {
					t.Error(err)
				}
				ok.Store(true)
			})
			synctest.Wait()
			return ok
		}
		change := func(x *Tx, key, v string) { x.Set(c, []byte(key), value(v)) }

		// A transaction waits for the end of the one that it depends on.
		a, b := s.Begin(), s.Begin()
		change(a, "k", "a")
		change(b, "k", "b")
		done := acked(b)
		if done.Load() {
			t.Error("it was committed before the one that it depends on")
		}
		acked(a)
		if !done.Load() || s.Stats().Splits != 0 {
			t.Error("it was not committed with the one that it depends on")
		}
		// It does not wait for one that waits.
		a, b = s.Begin(), s.Begin()
		change(a, "k", "a2")
		change(a, "other", "a2")
		change(b, "k", "b2")
		done = acked(b)
		goesOn := a.Waits()
		synctest.Wait()
		if !done.Load() || s.Stats().Splits != 1 {
			t.Error("it waits for one that waits")
		}
		goesOn()
		goesOn()
		change(a, "k", "a3")
		crash := mem.CrashClone(vfs.CrashCloneCfg{})
		// It waits at most as long as its patience.
		b = s.Begin()
		change(b, "k", "b3")
		done = acked(b)
		time.Sleep(time.Second - time.Millisecond)
		synctest.Wait()
		if done.Load() {
			t.Error("it has no patience")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !done.Load() || s.Stats().Splits != 2 {
			t.Error("it waits for too long")
		}
		if a.Changed() {
			t.Error("what was split off is on disk")
		}
		acked(a)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		s = openStore(t, mem)
		if got := content(t, s); got["v"]["k"] != "b3" {
			t.Errorf("k is %s", got["v"]["k"])
		}
		_ = s.Close()
		s = openStore(t, crash)
		if got := content(t, s); got["v"]["k"] != "b2" || got["v"]["other"] != "a2" {
			t.Errorf("after the first split: %v", got)
		}
		_ = s.Close()
	})
}

// TestWholeChanges checks that a change of several keys is not split, however long others wait for it.
func TestWholeChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMem(t)
		s := openStore(t, mem)
		c := create(t, s, "v")
		begin := func(key, v string) (goesOn *Tx, depends chan error) {
			goesOn, depends = s.Begin(), make(chan error, 1)
			goesOn.BeginChange()
			goesOn.Set(c, []byte(key), value(v))
			x := s.Begin()
			x.After(c, []byte(key))
			x.Set(c, []byte("other"), value(v))
			x.End(func(err error) { depends <- err })
			return goesOn, depends
		}
		a, done := begin("k", "a")
		time.Sleep(time.Hour)
		if len(done) > 0 || s.Stats().Splits != 0 {
			t.Error("a change was split")
		}
		a.Set(c, []byte("l"), value("a"))
		a.EndChange()
		if err := <-done; err != nil {
			t.Error(err)
		}
		clone := openStore(t, mem.CrashClone(vfs.CrashCloneCfg{}))
		if got := content(t, clone)["v"]; got["k"] != "a" || got["l"] != "a" || got["other"] != "a" {
			t.Errorf("after a crash, there is %v", got)
		}
		if err := clone.Close(); err != nil {
			t.Error(err)
		}
		// The store closes when the change has ended.
		b, done := begin("k", "b")
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		if len(closed) > 0 || len(done) > 0 {
			t.Error("the store was closed during a change")
		}
		b.EndChange()
		for _, err := range []error{<-done, <-closed, end(a)} {
			if err != nil {
				t.Error(err)
			}
		}
	})
}

func TestClose(t *testing.T) {
	mem := newMem(t)
	s := openStore(t, mem)
	c := create(t, s, "v")
	x, y, z := s.Begin(), s.Begin(), s.Begin()
	x.Set(c, []byte("k"), value("x"))
	y.Set(c, []byte("k"), value("y"))
	z.Set(c, []byte("z"), value("z"))
	done := make(chan error, 1)
	y.End(func(err error) { done <- err }) // it depends on x, which goes on
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("a commit that was begun: %v", err)
	}
	z.Set(c, []byte("z"), value("late"))
	for _, err := range []error{end(z), set(c, "k", "late")} {
		if status.CodeOf(err) != status.Aborted {
			t.Errorf("after Close: %v", err)
		}
	}
	if err := end(s.Begin()); err != nil {
		t.Errorf("an empty transaction after Close: %v", err)
	}
	c.Drop(func(err error) { done <- err })
	if err := <-done; status.CodeOf(err) != status.Aborted {
		t.Errorf("a deletion after Close: %v", err)
	}
	if err := c.Each(func(_, _ []byte) error { return nil }); status.CodeOf(err) != status.Aborted {
		t.Errorf("a read after Close: %v", err)
	}
	if n := unreleased.Load(); n != 0 {
		t.Errorf("%d values were not released", n)
	}
	s = openStore(t, mem)
	if got := content(t, s)["v"]; fmt.Sprint(got) != "map[k:y]" {
		t.Errorf("on disk is %v", got)
	}
	_ = s.Close()
}

func TestDrop(t *testing.T) {
	mem := newMem(t)
	s := openStore(t, mem)
	old, other := create(t, s, "v"), create(t, s, "other")
	if err := set(old, "k", "old"); err != nil {
		t.Fatal(err)
	}
	x := s.Begin()
	x.Set(old, []byte("late"), value("x"))
	x.Set(other, []byte("k"), value("x"))
	dropped := make(chan error, 1)
	old.Drop(func(err error) { dropped <- err })
	if err := <-dropped; err != nil {
		t.Error(err)
	}
	successor := create(t, s, "v")
	if err := errors.Join(set(successor, "new", "1"), set(old, "later", "1"), end(x)); err != nil {
		t.Error(err)
	}
	_ = s.Close()
	s = openStore(t, mem)
	if got := fmt.Sprint(content(t, s)); got != "map[other:map[k:x] v:map[new:1]]" {
		t.Errorf("on disk is %v", got)
	}
	_ = s.Close()
}

// TestConcurrent increments counters from many goroutines: each acknowledged transaction is there afterwards.
func TestConcurrent(t *testing.T) {
	mem := newMem(t)
	s := openStore(t, mem)
	c := create(t, s, "v")
	const workers, steps = 16, 100
	var mu sync.Mutex
	total := 0
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range steps {
				x := s.Begin()
				mu.Lock()
				total++
				x.Set(c, []byte("total"), value(strconv.Itoa(total)))
				mu.Unlock()
				x.Waits()()
				if err := end(x); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	crash := mem.CrashClone(vfs.CrashCloneCfg{})
	st := s.Stats()
	if st.Transactions+st.Splits < workers*steps || st.Commits > workers*steps+st.Splits+1 { // one that was split may have nothing left at its end
		t.Errorf("%+v", st)
	}
	if len(c.slots)+len(s.blocked)+len(s.queue) > 0 {
		t.Errorf("%d slots, %d blocked and %d queued transactions are left", len(c.slots), len(s.blocked), len(s.queue))
	}
	_ = s.Close()
	s = openStore(t, crash)
	if got := content(t, s)["v"]["total"]; got != strconv.Itoa(workers*steps) {
		t.Errorf("the total is %s", got)
	}
	_ = s.Close()
}

func BenchmarkEnd(b *testing.B) {
	for _, size := range []int{8, 1 << 20} {
		for _, workers := range []int{1, 16} {
			b.Run(fmt.Sprintf("size=%d/workers=%d", size, workers), func(b *testing.B) { benchmarkEnd(b, size, workers) })
		}
	}
}

func benchmarkEnd(b *testing.B, size, workers int) {
	s, err := Open(filepath.Join(b.TempDir(), "state"), Options{Owner: "o", Log: quiet})
	if err != nil {
		b.Fatal(err)
	}
	v := strings.Repeat("x", size)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range workers {
		c, err := s.Create(Place{Name: strconv.Itoa(w)}, nil)
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			done := make(chan error, 1)
			for range (b.N + workers - 1) / workers {
				x := s.Begin()
				x.Set(c, []byte("k"), value(v))
				x.End(func(err error) { done <- err })
				if err := <-done; err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	st := s.Stats()
	b.ReportMetric(float64(st.Transactions)/float64(st.Commits), "tx/sync")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// TestCleanup checks that what may be lost waits for what it depends on, however long that takes, and splits nothing.
func TestCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMem(t)
		s := openStore(t, mem)
		c := create(t, s, "v")
		slow := s.Begin()
		slow.Set(c, []byte("k"), value("slow"))
		slow.Waits()
		x := s.Cleanup()
		x.Delete(c, []byte("k"))
		var cleaned atomic.Bool
		x.End(func(err error) { cleaned.Store(err == nil) })
		time.Sleep(time.Hour)
		if err := set(c, "other", "v"); err != nil {
			t.Fatal(err)
		}
		if n := s.Stats().Splits; cleaned.Load() || n != 0 {
			t.Errorf("a cleanup did not wait, or split %d others", n)
		}
		if err := end(slow); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !cleaned.Load() {
			t.Error("a cleanup was not committed with the one that it depends on")
		}
		// Another one does not hold up the end.
		slow, x = s.Begin(), s.Cleanup()
		slow.Set(c, []byte("k"), value("slow"))
		x.Delete(c, []byte("k"))
		x.End(func(error) {})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openStore(t, mem)
		if got := content(t, s)["v"]; got["k"] != "" || got["other"] != "v" {
			t.Errorf("there is %v", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
