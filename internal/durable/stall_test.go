package durable

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/troupe-run/troupe/graph/status"
)

// hangingFS is a file system whose changes do not end while it hangs, or what the committer asks before a change.
type hangingFS struct {
	vfs.FS
	asked bool // the latter
	mu    sync.RWMutex
	free  chan struct{} // closed when it hangs no more; guarded by mu
}

func (h *hangingFS) hang() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.free = make(chan struct{})
}

func (h *hangingFS) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.free)
	h.free = nil
}

func (h *hangingFS) wait() {
	h.mu.RLock()
	free := h.free
	h.mu.RUnlock()
	if free != nil {
		<-free
	}
}

func (h *hangingFS) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	if h.asked {
		h.wait()
	}
	return h.FS.GetDiskUsage(path)
}

type hangingFile struct {
	vfs.File
	fs *hangingFS
}

func (h *hangingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	h.wait()
	f, err := h.FS.Create(name, c)
	return hangingFile{f, h}, err
}

func (f hangingFile) Write(p []byte) (int, error) {
	f.fs.wait()
	return f.File.Write(p)
}

func (f hangingFile) Sync() error {
	f.fs.wait()
	return f.File.Sync()
}

func (f hangingFile) SyncData() error {
	f.fs.wait()
	return f.File.SyncData()
}

func (f hangingFile) SyncTo(n int64) (bool, error) {
	f.fs.wait()
	return f.File.SyncTo(n)
}

// TestDiskThatHangs: while an operation of the disk does not end, the log says so, changes are refused after a while, and when it has ended all goes
// on and what waited is there.
func TestDiskThatHangs(t *testing.T) {
	for _, asked := range []bool{false, true} {
		testDiskThatHangs(t, asked)
	}
}

func testDiskThatHangs(t *testing.T, asked bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fs := &hangingFS{FS: newMem(t), asked: asked}
		var log bytes.Buffer // read only when the store is quiet
		s, err := Open("/d/store", Options{Owner: "/job:ps/task:0", Log: slog.New(slog.NewTextHandler(&log, nil)), FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		x := create(t, s, "x")
		if err := set(x, "k", "before"); err != nil {
			t.Fatal(err)
		}
		for range 2 { // it may happen again
			log.Reset()
			fs.hang()
			change := s.Begin()
			change.Set(x, []byte("k"), value("meanwhile"))
			ended := make(chan error, 1)
			change.End(func(err error) { ended <- err })
			time.Sleep(slowAfter + time.Second)
			synctest.Wait()
			if !strings.Contains(log.String(), "does not answer") {
				t.Errorf("after %v, the log has %q", slowAfter, log.String())
			}
			if err := s.Admits(Removes()); err != nil {
				t.Errorf("a disk that is slow: %v", err)
			}
			time.Sleep(stalledAfter - slowAfter)
			synctest.Wait()
			for what, err := range map[string]error{"Admits": s.Admits(Removes()), "Err": s.Err()} {
				if status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(), "has not answered for 31s (") {
					t.Errorf("%s after %v: %v", what, stalledAfter, err)
				}
			}
			if len(ended) > 0 {
				t.Fatal("the change has ended before its write has")
			}
			fs.release()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := s.Admits(Adds(1)); err != nil {
				t.Errorf("after the stall: %v", err)
			}
			if n := strings.Count(log.String(), "level="); n != 2 || !strings.Contains(log.String(), "answers again") {
				t.Errorf("after the stall, the log has %q", log.String())
			}
		}
		time.Sleep(time.Hour)
		if err := s.Outlast(s.Close); err != nil {
			t.Fatal(err)
		}
		s = openStore(t, fs)
		if got := content(t, s)["x"]["k"]; got != "meanwhile" {
			t.Errorf("after a restart: %q", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestEndOfAStoreWhoseDiskHangs: the end of a store waits for a disk that is slow, and not for one that does not answer.
func TestEndOfAStoreWhoseDiskHangs(t *testing.T) {
	for _, hangs := range []time.Duration{stalledAfter - time.Second, stalledAfter + time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			fs := &hangingFS{FS: newMem(t)}
			s := openStore(t, fs)
			create(t, s, "x")
			synctest.Wait()
			fs.hang()
			time.AfterFunc(hangs, fs.release)
			began, closed := time.Now(), false
			err := s.Outlast(func() error {
				err := s.Close()
				closed = true
				return err
			})
			took := time.Since(began)
			time.Sleep(hangs)
			synctest.Wait()
			if !closed {
				t.Error("the end of the store has not ended")
			}
			if hangs < stalledAfter {
				if err != nil || took != hangs {
					t.Errorf("a disk that is slow for %v: %v after %v", hangs, err, took)
				}
			} else if status.CodeOf(err) != status.Unavailable || took > stalledAfter+2*stallInterval {
				t.Errorf("a disk that hangs: %v after %v", err, took)
			}
		})
	}
}
