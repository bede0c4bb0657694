package reader

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"github.com/troupe-run/troupe/kernels/files"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
	"github.com/troupe-run/troupe/queues"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon bounds how long a test waits.
const soon = 20 * time.Second

// names supplies work from a list; requests beyond its end wait.
type names struct {
	ask chan func(string, error) // the pending request
	all []string
}

func newNames(all ...string) *names { return &names{make(chan func(string, error), 10), all} }

func (n *names) next(done func(string, error)) (cancel func(error)) {
	if len(n.all) > 0 {
		name := n.all[0]
		n.all = n.all[1:]
		done(name, nil)
		return func(error) {}
	}
	n.ask <- done
	return func(cause error) {
		select {
		case done := <-n.ask:
			done("", cause)
		default:
		}
	}
}

type result struct {
	records []Record
	err     error
}

func readOne(r *Reader, work Work) (<-chan result, func(error)) {
	got := make(chan result, 1)
	cancel := r.Read(context.Background(), queues.Origin{}, files.All, work, func(record Record, err error) { got <- result{[]Record{record}, err} })
	return got, cancel
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(soon):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// drain reads until the names are used up.
func drain(t *testing.T, r *Reader, files ...string) (keys, values []string) {
	t.Helper()
	work := newNames(files...)
	for {
		got, cancel := readOne(r, work.next)
		select {
		case g := <-got:
			if g.err != nil {
				t.Fatal(g.err)
			}
			keys, values = append(keys, g.records[0].Key), append(values, g.records[0].Value)
		case done := <-work.ask:
			work.ask <- done
			cancel(nil)
			if g := receive(t, got); status.CodeOf(g.err) != status.Cancelled {
				t.Fatalf("cancelled: %v", g.err)
			}
			return keys, values
		case <-time.After(soon):
			t.Fatal("nothing came")
		}
	}
}

func closed(t *testing.T, r *Reader) {
	t.Helper()
	r.Close()
	receive(t, r.Done())
}

func TestTextLines(t *testing.T) {
	long := strings.Repeat("long", readAhead)
	a := write(t, "a", []byte("one\r\n\ntwo\r three\n"+long+"\nlast"))
	b := write(t, "b", nil)
	c := write(t, "c", []byte("h1\nh2\nx\r"))
	r := New("TextLineReader", "n", TextLines(0))
	keys, values := drain(t, r, a, b, c)
	if want := []string{"one", "", "two\r three", long, "last", "h1", "h2", "x"}; !slices.Equal(values, want) {
		t.Errorf("got %.80q", values)
	}
	if keys[2] != a+":3" || keys[7] != c+":3" {
		t.Errorf("keys are %q", keys)
	}
	if r.Produced() != 8 || r.Finished() != 3 {
		t.Errorf("%d records of %d files", r.Produced(), r.Finished())
	}
	closed(t, r)
	r = New("TextLineReader", "n", TextLines(2))
	if keys, values := drain(t, r, b, c); !slices.Equal(values, []string{"x"}) || keys[0] != c+":3" {
		t.Errorf("after two lines: %q, %q", keys, values)
	}
	closed(t, r)
}

func pack(t *testing.T, c tfrecord.Compression, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	switch c {
	case tfrecord.GZIP:
		w := gzip.NewWriter(&b)
		_, _ = w.Write(content) // to memory
		_ = w.Close()
	case tfrecord.ZLIB:
		w := zlib.NewWriter(&b)
		_, _ = w.Write(content)
		_ = w.Close()
	default:
		return content
	}
	return b.Bytes()
}

func TestRecords(t *testing.T) {
	for _, c := range []tfrecord.Compression{tfrecord.None, tfrecord.ZLIB, tfrecord.GZIP} {
		var content []byte
		for i := range 3 {
			content = tfrecord.Append(content, fmt.Appendf(nil, "record %d", i))
		}
		whole := write(t, "r", pack(t, c, content))
		r := New("TFRecordReader", "n", Records(c))
		keys, values := drain(t, r, whole)
		if !slices.Equal(values, []string{"record 0", "record 1", "record 2"}) || keys[1] != fmt.Sprintf("%s:%d", whole, 24) {
			t.Errorf("got %q, %q", keys, values)
		}
		content[14] ^= 1
		got, _ := readOne(r, newNames(write(t, "x", pack(t, c, content))).next)
		if g := receive(t, got); status.CodeOf(g.err) != status.DataLoss {
			t.Errorf("of a changed record: %v", g.err)
		}
		closed(t, r)
	}
}

func TestFixedLength(t *testing.T) {
	for _, c := range []struct {
		layout  FixedLength
		content string
		want    string
	}{
		{FixedLength{Record: 3}, "abcdefgh", "abc def"},
		{FixedLength{Header: 2, Record: 3, Footer: 1}, "HHabcdefF", "abc def"},
		{FixedLength{Record: 3, Hop: 2}, "abcdefg", "abc cde efg"},
		{FixedLength{Record: 2, Hop: 5}, "abcdefghijk", "ab fg"},
		{FixedLength{Header: 1, Record: 2, Footer: 2, Hop: 1}, "HabcdFF", "ab bc cd"},
		{FixedLength{Header: 3, Record: 2}, "HHH", ""},
	} {
		for _, compression := range []tfrecord.Compression{tfrecord.None, tfrecord.ZLIB, tfrecord.GZIP} {
			c.layout.Compression = compression
			name := write(t, "f", pack(t, compression, []byte(c.content)))
			r := New("FixedLengthRecordReader", "n", NewFixedLength(c.layout))
			keys, values := drain(t, r, name)
			if strings.Join(values, " ") != c.want || len(keys) > 1 && keys[1] != name+":1" {
				t.Errorf("%+v: got %q, %q", c.layout, keys, values)
			}
			closed(t, r)
		}
	}
	r := New("FixedLengthRecordReader", "n", NewFixedLength(FixedLength{Header: 9, Record: 1}))
	got, _ := readOne(r, newNames(write(t, "f", []byte("short"))).next)
	if g := receive(t, got); status.CodeOf(g.err) != status.OutOfRange {
		t.Errorf("of a file without a whole header: %v", g.err)
	}
	closed(t, r)
}

func TestReadUpToEndsWithTheFile(t *testing.T) {
	a, b := write(t, "a", []byte("1\n2\n3\n")), write(t, "b", []byte("4\n"))
	r := New("TextLineReader", "n", TextLines(0))
	work := newNames(a, b)
	var sizes []int
	for _, n := range []int64{2, 2, 5, 0} {
		got := make(chan result, 1)
		r.ReadUpTo(t.Context(), queues.Origin{}, files.All, work.next, n, func(records []Record, err error) { got <- result{records, err} })
		g := receive(t, got)
		if g.err != nil {
			t.Fatal(g.err)
		}
		sizes = append(sizes, len(g.records))
	}
	if !slices.Equal(sizes, []int{2, 1, 1, 0}) {
		t.Errorf("reads gave %v records", sizes)
	}
	got := make(chan error, 1)
	r.ReadUpTo(t.Context(), queues.Origin{}, files.All, work.next, -1, func(_ []Record, err error) { got <- err })
	if err := receive(t, got); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("of -1 records: %v", err)
	}
	closed(t, r)
}

func TestMissingFile(t *testing.T) {
	r := New("TextLineReader", "n", TextLines(0))
	work := newNames("/none/such", write(t, "a", []byte("x")))
	got, _ := readOne(r, work.next)
	if g := receive(t, got); status.CodeOf(g.err) != status.NotFound || g.err.Error() != "/none/such; No such file or directory" {
		t.Errorf("got %v", g.err)
	}
	got, _ = readOne(r, work.next)
	if g := receive(t, got); g.err != nil || g.records[0].Value != "x" {
		t.Errorf("after a missing file: %v", g)
	}
	closed(t, r)
}

func TestState(t *testing.T) {
	r := New("IdentityReader", "n", Identity())
	work := newNames("a", "b", "c")
	for range 2 {
		got, _ := readOne(r, work.next)
		receive(t, got)
	}
	state := make(chan string, 1)
	r.SerializeState(t.Context(), queues.Origin{}, func(s string, err error) {
		if err != nil {
			t.Error(err)
		}
		state <- s
	})
	s := receive(t, state)
	if s != "\x08\x02\x10\x02\x18\x02\"\x01b" {
		t.Errorf("the state is %q", s)
	}
	errs := make(chan error, 1)
	end := func(err error) { errs <- err }
	r.Reset(t.Context(), queues.Origin{}, end)
	if err := receive(t, errs); err != nil || r.Produced() != 0 || r.Finished() != 0 {
		t.Errorf("after Reset: %v, %d records", err, r.Produced())
	}
	r.RestoreState(t.Context(), queues.Origin{}, s, end)
	if err := receive(t, errs); err != nil || r.Produced() != 2 || r.Finished() != 2 {
		t.Errorf("restored: %v, %d records", err, r.Produced())
	}
	for _, c := range []struct{ state, want string }{
		{s[:len(s)-1], "Could not parse state for IdentityReader 'n': "},
		{"\xff\x7f\t~", `: \377\177\t~`},
		{"\x08\x03\x10\x02", "Inconsistent work started vs. finished when restoring in IdentityReader 'n'"},
		{"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "Unexpected negative value when restoring in IdentityReader 'n'"},
	} {
		r.RestoreState(t.Context(), queues.Origin{}, c.state, end)
		err := receive(t, errs)
		if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), c.want) || r.Produced() != 0 {
			t.Errorf("%q: %v", c.state, err)
		}
	}
	closed(t, r)
	r = New("TextLineReader", "n", TextLines(0))
	r.RestoreState(t.Context(), queues.Origin{}, s, end)
	if err := receive(t, errs); status.CodeOf(err) != status.Unimplemented {
		t.Errorf("of a reader of lines: %v", err)
	}
	closed(t, r)
}

// A waiting operation holds no goroutine, runs in its turn, and can be cancelled, whether it waits for a name or for its turn.
func TestWaiting(t *testing.T) {
	r := New("IdentityReader", "n", Identity())
	work := newNames()
	before := runtime.NumGoroutine()
	var got [5]<-chan result
	var cancel [5]func(error)
	for i := range got {
		got[i], cancel[i] = readOne(r, work.next)
		if i == 0 { // the first one requests a name before the others are started
			done := receive(t, work.ask)
			work.ask <- done
		}
	}
	for end := time.Now().Add(soon); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines wait", runtime.NumGoroutine()-before)
		}
	}
	cancel[2](nil)
	cancel[0](status.New(status.Aborted, "enough"))
	for _, i := range []int{2, 0} {
		if g := receive(t, got[i]); g.err == nil {
			t.Errorf("read %d was not cancelled", i)
		}
	}
	cancel[0](nil) // no longer has any effect
	for _, i := range []int{1, 3} {
		receive(t, work.ask)(fmt.Sprint(i), nil)
		if g := receive(t, got[i]); g.err != nil || g.records[0].Key != fmt.Sprint(i) {
			t.Errorf("read %d: %v", i, g)
		}
	}
	done := receive(t, work.ask)
	work.ask <- done
	closed(t, r)
	if g := receive(t, got[4]); status.CodeOf(g.err) != status.Aborted {
		t.Errorf("of a reader that was deleted: %v", g.err)
	}
	later, _ := readOne(r, work.next)
	if g := receive(t, later); status.CodeOf(g.err) != status.Aborted {
		t.Errorf("of a reader that is deleted: %v", g.err)
	}
}
