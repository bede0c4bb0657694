package events

import (
	"errors"
	"github.com/troupe-run/troupe/kernels/files"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// read returns the events of the only file in a folder.
func read(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("files %v, %v", names, err)
	}
	f, err := os.Open(names[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []string
	for r := tfrecord.NewReader(f, tfrecord.None, 0); ; {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(b))
	}
}

func open(t *testing.T, o Options) *Writer {
	t.Helper()
	o.Files = files.All
	w := New(o)
	if err := w.Open(); err != nil {
		t.Fatal(err)
	}
	return w
}

func write(t *testing.T, w *Writer, events ...string) {
	t.Helper()
	for _, e := range events {
		if err := w.Write([]byte(e)); err != nil {
			t.Fatal(err)
		}
	}
}

func closed(t *testing.T, w *Writer) {
	t.Helper()
	w.Close()
	<-w.Done()
	if err := w.Err(); err != nil {
		t.Fatal(err)
	}
}

func TestMaxQueue(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	w := open(t, Options{Dir: dir, Suffix: ".v2", MaxQueue: 2, FlushInterval: time.Hour})
	if n := len(read(t, dir)); n != 1 {
		t.Fatalf("a new file has %d events, want the version alone", n)
	}
	write(t, w, "1", "2")
	if n := len(read(t, dir)); n != 1 {
		t.Errorf("%d events were written while the queue had room", n-1)
	}
	write(t, w, "3")
	if got := strings.Join(read(t, dir)[1:], ""); got != "123" {
		t.Errorf("events %q, want 123", got)
	}
	write(t, w, "4")
	closed(t, w)
	if got := strings.Join(read(t, dir)[1:], ""); got != "1234" {
		t.Errorf("events %q, want 1234", got)
	}
	if err := w.Write(nil); status.CodeOf(err) != status.NotFound || !w.Deleted() {
		t.Errorf("writing after Close: %v", err)
	}
	w.Close()
}

// TestBytesInQueue checks that events wait without limit to their number if the queue has none, but not to their size.
func TestBytesInQueue(t *testing.T) {
	dir := t.TempDir()
	w := open(t, Options{Dir: dir, MaxQueue: -1, FlushInterval: time.Hour})
	write(t, w, "1", "2", "3", strings.Repeat("x", maxPending/2))
	if n := len(read(t, dir)); n != 1 {
		t.Errorf("%d events were written of a queue without a limit", n-1)
	}
	write(t, w, strings.Repeat("x", maxPending/2))
	if n := len(read(t, dir)); n != 1+5 {
		t.Errorf("%d events were written when they had become large, want 5", n-1)
	}
	closed(t, w)
}

func TestFlushInterval(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := open(t, Options{Dir: dir, MaxQueue: 100, FlushInterval: time.Minute})
		write(t, w, "1")
		time.Sleep(59 * time.Second)
		write(t, w, "2")
		if n := len(read(t, dir)); n != 1 {
			t.Errorf("%d events were written too early", n-1)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := strings.Join(read(t, dir)[1:], ""); got != "12" {
			t.Errorf("events %q after a minute, want 12", got)
		}
		write(t, w, "3")
		closed(t, w)
	})
	if got := strings.Join(read(t, dir)[1:], ""); got != "123" {
		t.Errorf("events %q, want 123", got)
	}
	now := open(t, Options{Dir: filepath.Join(dir, "now"), MaxQueue: 100})
	write(t, now, "1")
	if n := len(read(t, filepath.Join(dir, "now"))); n != 2 {
		t.Errorf("no interval keeps an event waiting")
	}
	closed(t, now)
}

// A write error of the timer is returned by the next write, and the file stays readable.
func TestLostEvents(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := open(t, Options{Dir: dir, MaxQueue: 100, FlushInterval: time.Minute})
		write(t, w, "1")
		if err := w.file.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := w.Write([]byte("2")); err == nil || !strings.Contains(err.Error(), "Could not flush events file. 1 events are lost.") {
			t.Errorf("the next call says %v", err)
		}
		w.Close()
		<-w.Done()
		if w.Err() == nil {
			t.Error("nobody hears that the file could not be closed")
		}
	})
	if n := len(read(t, dir)); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

func TestManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	w := open(t, Options{Dir: dir, MaxQueue: 3, FlushInterval: time.Millisecond})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				if err := w.Write([]byte("event")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	closed(t, w)
	if n := len(read(t, dir)); n != 1+8*200 {
		t.Errorf("%d events, want %d", n-1, 8*200)
	}
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	for _, suffix := range []string{".v2", "v2", ""} {
		a, b := open(t, Options{Dir: dir, Suffix: suffix}), open(t, Options{Dir: dir, Suffix: suffix})
		closed(t, a)
		closed(t, b)
	}
	names, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(names) != 6 {
		t.Errorf("files %v, %v; want 6", names, err)
	}
	// A process with the same host name and process ID has already taken the next name.
	next := numbers.Load()
	first := open(t, Options{Dir: dir})
	closed(t, first)
	numbers.Store(next)
	second := open(t, Options{Dir: dir})
	closed(t, second)
	if nameOf(first) == nameOf(second) {
		t.Error("two writers share a file")
	}
}

func TestFolderErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := New(Options{Files: files.All, Dir: file})
	if err := w.Open(); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("a file as folder: %v", err)
	}
	if err := w.Write(nil); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("writing without a file: %v", err)
	}
	w.Close()
	<-w.Done()
}

func TestValid(t *testing.T) {
	now := time.Now()
	for _, e := range [][]byte{nil, version(now), Summary(now, 7, nil), Graph(now, -1, []byte("\xff"))} {
		if !Valid(e) {
			t.Errorf("%q is an event", e)
		}
	}
	for _, e := range [][]byte{[]byte("\xff"), Summary(now, 7, []byte("\xff")), field(nil, fieldFileVersion, []byte("\xff")), protowire.AppendTag(nil, 1, protowire.Fixed64Type)} {
		if Valid(e) {
			t.Errorf("%q is no event", e)
		}
	}
	_, _, n := protowire.ConsumeTag(version(now))
	at, _ := protowire.ConsumeFixed64(version(now)[n:])
	if math.Float64frombits(at) != float64(now.Unix()) {
		t.Errorf("the file's time is %v, want whole seconds", math.Float64frombits(at))
	}
}

// nameOf returns the name of a writer's file.
func nameOf(w *Writer) string { return w.file.(interface{ Name() string }).Name() }

// A client may write any bytes as an event: however deeply they are nested, nothing recurses.
func TestValidDoesNotRecurse(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	// Nested messages, each preceded by the length of its content.
	const depth = 100_000
	nested := make([]byte, 0, 4*depth)
	for range depth { // from the innermost outwards, so backwards
		head := protowire.AppendBytes(protowire.AppendTag(nil, fieldSourceMetadata, protowire.BytesType), nil)
		head = protowire.AppendVarint(head[:len(head)-1], uint64(len(nested)))
		slices.Reverse(head)
		nested = append(nested, head...)
	}
	slices.Reverse(nested)
	if !Valid(nested) {
		t.Error("an event with unknown fields in its metadata is an event")
	}
	if Valid(field(nil, fieldSourceMetadata, field(nil, 1, []byte("\xff")))) {
		t.Error("a writer's name that is no text is none")
	}
}
