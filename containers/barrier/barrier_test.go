package barrier

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
)

type fixture struct {
	*testing.T
	*Barrier
	pool *tensor.Pool
	told []string
}

// newFixture has a barrier of two components of two floats each.
func newFixture(t *testing.T) *fixture {
	f := &fixture{T: t, pool: tensor.NewPool("test", 1<<20)}
	f.Barrier = New(Options{Name: "b", DTypes: []tensor.DType{tensor.Float64, tensor.String}, Shapes: []tensor.Shape{{2}, {}}, Pool: f.pool})
	t.Cleanup(func() {
		f.Close()
		if n := f.pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes were not given back", n)
		}
	})
	return f
}

// closer closes the barriers of the tests; the resulting errors name it.
var closer = view.StepOrigin{Step: 1, Session: "a", Master: "/job:worker/replica:0/task:0"}

var closed = regexp.MustCompile(` It was closed \S+ ago \(\S+\) by session a of /job:worker/replica:0/task:0, and stays closed: a reset of its container deletes it$`)

// told returns an error's code and text, with "(by a)" for the step that closed the barrier.
func told(err error) string {
	return fmt.Sprintf("%v: %s", status.CodeOf(err), closed.ReplaceAllString(err.Error(), " (by a)"))
}

func (f *fixture) expectError(err error, want string) {
	f.Helper()
	got := ""
	if err != nil {
		got = told(err)
	}
	if got != want {
		f.Errorf("got %q, want %q", got, want)
	}
}

// first inserts component 0 of keys, with values 0, 1, ...; second inserts component 1, the key in capitals.
func (f *fixture) first(keys string, want string) {
	f.Helper()
	list := strings.Fields(keys)
	v, err := tensor.New(f.pool, tensor.Float64, tensor.Shape{int64(len(list)), 2})
	if err != nil {
		f.Fatal(err)
	}
	for i := range tensor.Of[float64](v) {
		tensor.Of[float64](v)[i] = float64(i)
	}
	defer v.Release()
	f.expectError(f.InsertMany(nil, 0, list, v), want)
}

func (f *fixture) second(keys string, want string) {
	f.Helper()
	list := strings.Fields(keys)
	v, err := tensor.FromStrings(tensor.Shape{int64(len(list))}, strings.Fields(strings.ToUpper(keys)))
	if err != nil {
		f.Fatal(err)
	}
	defer v.Release()
	f.expectError(f.InsertMany(nil, 1, list, v), want)
}

func (f *fixture) take(n int, small bool) (cancel func(error)) {
	return f.TakeMany(context.Background(), nil, n, small, func(taken *Taken, err error) {
		if err != nil {
			f.told = append(f.told, told(err))
			return
		}
		text := ""
		for i, key := range taken.Keys.Strings() {
			text += fmt.Sprint(" ", key, tensor.Of[float64](taken.Components[0])[2*i:2*i+2], taken.Components[1].Strings()[i])
		}
		for _, t := range taken.All() {
			t.Release()
		}
		f.told = append(f.told, strings.TrimSpace(text))
	})
}

func (f *fixture) expect(want ...string) {
	f.Helper()
	if got := strings.Join(f.told, "\n"); got != strings.Join(want, "\n") {
		f.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	f.told = nil
}

func TestTakesWhatIsComplete(t *testing.T) {
	f := newFixture(t)
	f.take(2, false)
	f.take(1, false)
	f.first("a b", "")
	f.first("c", "")
	f.second("c", "")
	f.expect() // the earliest take is served first
	f.second("b a", "")
	f.expect("b[2 3]B a[0 1]A", "c[0 1]C")
	f.first("a", "") // a key that has been taken is new again
	f.first("a", "INVALID_ARGUMENT: Key a already has a value for component 0 in barrier b")
	if r, i := f.ReadySize(), f.IncompleteSize(); r != 0 || i != 1 {
		t.Errorf("sizes %d, %d", r, i)
	}
	f.take(0, false)
	f.take(-1, false)
	f.expect("", "INVALID_ARGUMENT: TakeMany requested -1 < 0 elements")
	cancel := f.take(1, false)
	cancel(nil)
	f.expect("CANCELLED: Dequeue operation was cancelled")
}

func TestEarlierKeysLeaveFirst(t *testing.T) {
	f := newFixture(t)
	f.first("a", "")
	f.first("b", "")
	f.second("b", "")
	f.second("a", "")
	f.take(2, false)
	f.expect("a[0 1]A b[0 1]B")
}

func TestBadInsertions(t *testing.T) {
	f := newFixture(t)
	empty, _ := tensor.New(f.pool, tensor.Float64, tensor.Shape{1, 0})
	defer empty.Release()
	f.expectError(f.InsertMany(nil, 0, []string{"a"}, empty), "INVALID_ARGUMENT: Tensors with no elements are not supported b: received shape [1,0]")
	wide, _ := tensor.Zeros(f.pool, tensor.Float64, tensor.Shape{1, 3})
	defer wide.Release()
	f.expectError(f.InsertMany(nil, 0, []string{"a", "b"}, wide), "INVALID_ARGUMENT: Barrier b got 2 keys, but values of shape [1,3]")
	f.expectError(f.InsertMany(nil, 0, []string{"a"}, wide), "")
	f.second("a", "INVALID_ARGUMENT: Shape mismatch in tuple component 2. Expected [2], got [3]")
	if r, i := f.ReadySize(), f.IncompleteSize(); r != 0 || i != 0 {
		t.Errorf("sizes %d, %d", r, i)
	}
}

func TestClose(t *testing.T) {
	f := newFixture(t)
	f.first("a b c", "")
	f.second("a", "")
	f.take(4, false)
	f.take(4, true)
	f.expectError(f.CloseBarrier(nil, false, closer), "")
	f.expectError(f.CloseBarrier(nil, false, closer), "CANCELLED: Barrier 'b' is already closed. (by a)")
	f.first("d", "CANCELLED: Barrier b is closed, but attempted to insert a brand new key: d.  Pending enqueues cancelled: 0.  Insertion index: 0.  Number of incomplete keys: 2. (by a)")
	f.take(9, false)
	f.expect("OUT_OF_RANGE: Barrier 'b' is closed and has insufficient elements (requested 9, total size 3). (by a)")
	f.second("b c", "")
	f.expect("OUT_OF_RANGE: PriorityQueue 'b_queue' is closed and has insufficient elements (requested 4, current size 3). (by a)", "a[0 1]A b[2 3]B c[4 5]C")
	f.first("d", "CANCELLED: Barrier b is closed.  Pending enqueues cancelled: 0.  Number of new insertions: 1.  Number of incomplete keys: 0. (by a)")
	f.take(1, true)
	f.expect("OUT_OF_RANGE: Barrier 'b' is closed and has insufficient elements (requested 0, total size 0). (by a)")
	f.expectError(f.CloseBarrier(nil, true, closer), "")
	f.expectError(f.CloseBarrier(nil, true, closer), "CANCELLED: Barrier 'b' is already closed. (by a)")
}

func TestCloseDropsWhatIsIncomplete(t *testing.T) {
	f := newFixture(t)
	f.first("a b", "")
	f.second("a", "")
	f.expectError(f.CloseBarrier(nil, true, closer), "")
	f.second("b", "CANCELLED: Barrier b is closed.  Pending enqueues cancelled: 1.  Number of new insertions: 1.  Number of incomplete keys: 0. (by a)")
	f.take(5, true)
	f.expect("a[0 1]A")
	f.Close()
	f.take(1, false)
	f.expect("OUT_OF_RANGE: Barrier 'b' is closed and has insufficient elements (requested 1, total size 0). (by a)")
}

// TestInsertWithoutMemory checks that a key whose value finds no memory is as if it had not been inserted, and that those before it are.
func TestInsertWithoutMemory(t *testing.T) {
	f := newFixture(t)
	const size = 4 << 10 // bytes of a value
	values, err := tensor.New(f.pool, tensor.Float64, tensor.Shape{2, size / 8})
	if err != nil {
		t.Fatal(err)
	}
	defer values.Release()
	f.options.Pool = tensor.NewPool("small", 3*size/2)
	if err := f.InsertMany(nil, 0, []string{"a", "b"}, values); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("the second value: %v", err)
	}
	if n := f.IncompleteSize(); n != 1 {
		t.Errorf("%d tuples are incomplete", n)
	}
	f.options.Pool = f.pool
	again := values.Rows(0, 1)
	defer again.Release()
	if err := f.InsertMany(nil, 0, []string{"b"}, again); err != nil {
		t.Errorf("again: %v", err)
	}
	if n := f.IncompleteSize(); n != 2 || f.elements != 2 || f.index != firstIndex+2 {
		t.Errorf("%d tuples are incomplete, %d were made, and the next index is %d", n, f.elements, f.index-firstIndex)
	}
}
