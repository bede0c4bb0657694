package containers

import (
	"errors"
	"sync"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

const elems = 64 // enough for a buffer that the pool counts

// filled returns a tensor of elems int64, all v.
func filled(t *testing.T, pool *tensor.Pool, v int64) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(pool, tensor.Int64, tensor.Shape{elems})
	if err != nil {
		t.Fatal(err)
	}
	for i := range tensor.Of[int64](x) {
		tensor.Of[int64](x)[i] = v
	}
	return x
}

// whole returns the value that all elements have; a torn tensor fails the test.
func whole(t *testing.T, x *tensor.Tensor) int64 {
	t.Helper()
	values := tensor.Of[int64](x)
	for _, v := range values {
		if v != values[0] {
			t.Errorf("torn value: %d and %d", values[0], v)
			break
		}
	}
	return values[0]
}

func newVariable(t *testing.T) (*Variable, *tensor.Pool) {
	pool := tensor.NewPool("test", 0)
	t.Cleanup(func() {
		if n := pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes still in use", n)
		}
	})
	return NewVariable("x", tensor.Int64), pool
}

func add(n int64) func(*tensor.Tensor) error {
	return func(x *tensor.Tensor) error {
		for i := range tensor.Of[int64](x) {
			tensor.Of[int64](x)[i] += n
		}
		return nil
	}
}

func TestVariableWithoutValue(t *testing.T) {
	v, pool := newVariable(t)
	if v.Read() != nil || v.Initialized() || v.Deleted() || v.DType() != tensor.Int64 {
		t.Error("a new variable is not empty")
	}
	wantCode(t, v.Update(nil, pool, add(1)), status.FailedPrecondition, "Attempting to use uninitialized value x")
	if got := v.Describe(); got != "int64, no value" {
		t.Error(got)
	}
}

// TestVariableInPlace checks that an update writes in place if there are no readers, and otherwise copies.
func TestVariableInPlace(t *testing.T) {
	v, pool := newVariable(t)
	v.Assign(filled(t, pool, 1))
	one := pool.Stats().InUse
	if err := v.Update(nil, pool, add(1)); err != nil || pool.Stats().Peak != one {
		t.Error("an update without readers copied", err)
	}
	before := v.Read()
	if err := v.Update(nil, pool, add(1)); err != nil {
		t.Error(err)
	}
	after := v.Read()
	if whole(t, before) != 2 || whole(t, after) != 3 || pool.Stats().InUse != 2*one {
		t.Error("a reader's value changed, or was copied twice")
	}
	before.Release()
	// A holder of only part of the memory counts as a reader, too.
	row := after.Rows(0, 1)
	after.Release()
	if err := v.Update(nil, pool, add(1)); err != nil || tensor.Of[int64](row)[0] != 3 {
		t.Error("an alias changed", err)
	}
	row.Release()
	if got := v.Describe(); got != "int64 [64], 512 bytes" {
		t.Error(got)
	}
	v.Close()
}

func TestVariableUpdateErrors(t *testing.T) {
	v, _ := newVariable(t)
	small := tensor.NewPool("small", 8*elems)
	v.Assign(filled(t, small, 1))
	held := v.Read()
	wantCode(t, v.Update(nil, small, add(1)), status.ResourceExhausted, "OOM")
	if whole(t, held) != 1 {
		t.Error("a failed update changed the value")
	}
	bad := errors.New("bad")
	if err := v.Replace(nil, func(*tensor.Tensor) (*tensor.Tensor, error) { return nil, bad }); !errors.Is(err, bad) {
		t.Error(err)
	}
	if err := v.Replace(nil, func(*tensor.Tensor) (*tensor.Tensor, error) { return nil, nil }); err != nil || !v.Initialized() {
		t.Error("replacing by nothing lost the value", err)
	}
	if err := v.Replace(nil, func(old *tensor.Tensor) (*tensor.Tensor, error) { return old.Retain(), nil }); err != nil {
		t.Error(err)
	}
	held.Release()
	v.Close()
	if n := small.Stats().InUse; n != 0 {
		t.Errorf("%d bytes still in use", n)
	}
}

func TestVariableDeleted(t *testing.T) {
	v, pool := newVariable(t)
	v.Assign(filled(t, pool, 1))
	held := v.Read()
	v.Close()
	if !v.Deleted() || v.Initialized() || whole(t, held) != 1 {
		t.Error("deleted variable")
	}
	held.Release()
	v.Assign(filled(t, pool, 2))
	err := v.Replace(nil, func(old *tensor.Tensor) (*tensor.Tensor, error) { return filled(t, pool, 3), nil })
	wantCode(t, err, status.Aborted, "Variable x was deleted.")
	if v.Initialized() {
		t.Error("a deleted variable took a value")
	}
	wantCode(t, v.Update(nil, pool, add(1)), status.FailedPrecondition, "uninitialized")
}

// TestVariableRace races readers and writers against the container's deletion. Readers must see only whole, growing values, no update may
// be lost, and every buffer must return to the pool.
func TestVariableRace(t *testing.T) {
	const writers, readers, rounds = 4, 4, 300
	v, pool := newVariable(t)
	v.Assign(filled(t, pool, 0))
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := range rounds {
				var err error
				if i%3 == 0 {
					err = v.Replace(nil, func(old *tensor.Tensor) (*tensor.Tensor, error) {
						return filled(t, pool, whole(t, old)+1), nil
					})
				} else {
					err = v.Update(nil, pool, add(1))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range readers {
		wg.Go(func() {
			last := int64(0)
			for range rounds {
				x := v.Read()
				got := whole(t, x)
				if got < last {
					t.Errorf("value went from %d to %d", last, got)
				}
				last = got
				x.Release()
			}
		})
	}
	wg.Wait()
	x := v.Read()
	if got := whole(t, x); got != writers*rounds {
		t.Errorf("%d of %d updates", got, writers*rounds)
	}
	x.Release()
	for g := range writers {
		wg.Go(func() {
			for range rounds {
				v.Assign(filled(t, pool, 1))
				x := v.Read()
				if err := v.Update(nil, pool, add(1)); err != nil && status.CodeOf(err) != status.FailedPrecondition {
					t.Error(err)
				}
				if x != nil {
					whole(t, x)
					x.Release()
				}
			}
		})
		if g == writers/2 {
			wg.Go(v.Close)
		}
	}
	wg.Wait()
}
