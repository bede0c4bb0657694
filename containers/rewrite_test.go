package containers

import (
	"errors"
	"sync"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// plus is add as a rewrite: it writes next without reading what next holds.
func plus(n int64) func(next, old *tensor.Tensor) error {
	return func(next, old *tensor.Tensor) error {
		for i, v := range tensor.Of[int64](old) {
			tensor.Of[int64](next)[i] = v + n
		}
		return nil
	}
}

// sees checks the variable's value, and returns the value's memory.
func sees(t *testing.T, v *Variable, want int64) (memory *byte) {
	t.Helper()
	x := v.Read()
	defer x.Release()
	if got := whole(t, x); got != want {
		t.Errorf("the variable is %d, not %d", got, want)
	}
	return &x.Data()[0]
}

func TestVariableRewrite(t *testing.T) {
	v, pool := newVariable(t)
	wantCode(t, v.Rewrite(nil, pool, nil, plus(1)), status.FailedPrecondition, "Attempting to use uninitialized value x")
	v.Assign(filled(t, pool, 1))
	defer v.Close()
	one := pool.Stats().InUse
	spare := filled(t, pool, 100)
	own := sees(t, v, 1)

	// Without readers: in place, whatever the spare.
	if err := v.Rewrite(nil, pool, spare, plus(1)); err != nil || sees(t, v, 2) != own {
		t.Error("a rewrite without readers moved the value", err)
	}
	// With a reader: into the spare, without new memory.
	before := v.Read()
	if err := v.Rewrite(nil, pool, spare, plus(1)); err != nil || sees(t, v, 3) != &spare.Data()[0] || pool.Stats().InUse != 2*one {
		t.Error("the spare was not taken over", err)
	}
	// The spare is now the value, and the caller's reference to it counts as a reader's.
	if err := v.Rewrite(nil, pool, spare, plus(1)); err != nil || whole(t, spare) != 3 {
		t.Error("a reader's value changed", err)
	}
	sees(t, v, 4)
	spare.Release()
	before.Release()
	if n := pool.Stats().InUse; n != one {
		t.Errorf("%d bytes are in use, a value has %d", n, one)
	}
}

// TestVariableRewriteSpares checks that a spare that is shared or does not fit is left alone.
func TestVariableRewriteSpares(t *testing.T) {
	v, pool := newVariable(t)
	v.Assign(filled(t, pool, 1))
	defer v.Close()
	seen, flat := filled(t, pool, 7), filled(t, pool, 7)
	square, alias := flat.Reshaped(tensor.Shape{8, elems / 8}), seen.Rows(0, 1)
	flat.Release()
	for i, spare := range []*tensor.Tensor{seen, square} {
		reader := v.Read()
		if err := v.Rewrite(nil, pool, spare, plus(1)); err != nil {
			t.Error(err)
		}
		if sees(t, v, int64(i)+2) == &spare.Data()[0] || whole(t, spare) != 7 || whole(t, reader) != int64(i)+1 {
			t.Errorf("spare %d was written to", i)
		}
		reader.Release()
		spare.Release()
	}
	alias.Release()
}

// TestVariableRewriteFails checks that a rewrite into other memory that fails leaves no trace.
func TestVariableRewriteFails(t *testing.T) {
	v, pool := newVariable(t)
	v.Assign(filled(t, pool, 1))
	one := pool.Stats().InUse
	reader := v.Read()
	bad := errors.New("bad")
	if err := v.Rewrite(nil, pool, nil, func(next, old *tensor.Tensor) error {
		plus(5)(next, old)
		return bad
	}); !errors.Is(err, bad) {
		t.Error(err)
	}
	sees(t, v, 1)
	if n := pool.Stats().InUse; n != one {
		t.Errorf("%d bytes are in use, not %d", n, one)
	}
	wantCode(t, v.Rewrite(nil, tensor.NewPool("small", 1), nil, plus(1)), status.ResourceExhausted, "OOM")
	sees(t, v, 1)
	reader.Release()
	v.Close()
}

// TestVariablesSideBySide checks that two variables update concurrently: each update ends only after the other has begun.
func TestVariablesSideBySide(t *testing.T) {
	v, pool := newVariable(t)
	w := NewVariable("w", tensor.Int64)
	v.Assign(filled(t, pool, 1))
	w.Assign(filled(t, pool, 1))
	var meet, both sync.WaitGroup
	meet.Add(2)
	for _, x := range []*Variable{v, w} {
		both.Go(func() {
			if err := x.Update(nil, pool, func(*tensor.Tensor) error {
				meet.Done()
				meet.Wait()
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	v.Close()
	w.Close()
}

// TestVariableView checks that two views overlap, and that a writer waits for both instead of copying.
func TestVariableView(t *testing.T) {
	v, pool := newVariable(t)
	wantCode(t, v.View(func(*tensor.Tensor) error { return nil }), status.FailedPrecondition, "uninitialized")
	v.Assign(filled(t, pool, 1))
	one := pool.Stats().InUse
	var meet, all sync.WaitGroup
	meet.Add(2)
	wrote := make(chan struct{})
	for range 2 {
		all.Go(func() {
			if err := v.View(func(x *tensor.Tensor) error {
				meet.Done()
				meet.Wait()
				for range 1000 {
					if whole(t, x) != 1 {
						t.Error("changed while it was looked at")
					}
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	meet.Wait()
	all.Go(func() {
		defer close(wrote)
		if err := v.Update(nil, pool, add(1)); err != nil {
			t.Error(err)
		}
	})
	<-wrote
	all.Wait()
	if peak := pool.Stats().Peak; peak != one {
		t.Errorf("a copy was made: %d bytes at the peak, a value has %d", peak, one)
	}
	bad := errors.New("bad")
	if err := v.View(func(*tensor.Tensor) error { return bad }); !errors.Is(err, bad) {
		t.Error(err)
	}
	sees(t, v, 2)
	v.Close()
}
