package accumulator

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable/tuple"
)

func floats(b []byte) []float64 {
	t, err := tensor.FromBuffer(tensor.Float64, tensor.Shape{int64(len(b) / 8)}, tensor.WrapBytes(b, func() {}))
	if err != nil {
		panic(err)
	}
	return tensor.Of[float64](t)
}

var arithmetic = Arithmetic{
	Add: func(dst, a, b []byte) {
		for i, v := range floats(a) {
			floats(dst)[i] = v + floats(b)[i]
		}
	},
	Divide: func(dst []byte, n int) {
		for i := range floats(dst) {
			floats(dst)[i] /= float64(n)
		}
	},
}

// fixture has a pool that must be empty at the end.
type fixture struct {
	*testing.T
	pool *tensor.Pool
}

func newFixture(t *testing.T) fixture {
	f := fixture{t, tensor.NewPool("test", 1<<20)}
	t.Cleanup(func() {
		if n := f.pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes were not given back", n)
		}
	})
	return f
}

func (f fixture) options(mean bool, shape ...int64) Options {
	return Options{Name: "a", DType: tensor.Float64, Arithmetic: arithmetic, Shape: shape, KnownShape: true, Mean: mean, Pool: f.pool}
}

func (f fixture) tensor(shape tensor.Shape, values ...float64) *tensor.Tensor {
	t, err := tensor.New(f.pool, tensor.Float64, shape)
	if err != nil {
		f.Fatal(err)
	}
	copy(tensor.Of[float64](t), values)
	return t
}

func (f fixture) slices(shape tensor.Shape, indices []int64, values ...float64) Slices {
	at, err := tensor.FromSlice(tensor.Int64, tensor.Shape{int64(len(indices))}, indices)
	if err != nil {
		f.Fatal(err)
	}
	return Slices{Indices: at, Values: f.tensor(shape, values...)}
}

func (f fixture) applySparse(a *Accumulator, step int64, g Slices, want string) {
	f.Helper()
	defer g.Values.Release()
	f.fails(a.ApplySparse(nil, step, g), want)
}

func (f fixture) fails(err error, want string) {
	f.Helper()
	if want == "" && err != nil || want != "" && (status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), want)) {
		f.Errorf("got %v, want %q", err, want)
	}
}

// taken checks the result of a take that need not wait.
func (f fixture) taken(a *Accumulator, required int, want ...[]float64) {
	f.Helper()
	told := false
	a.Take(context.Background(), nil, required, func(out []*tensor.Tensor, err error) {
		told = true
		if err != nil || len(out) != len(want) {
			f.Errorf("got %d tensors, %v", len(out), err)
			return
		}
		for i, t := range out {
			var have []float64
			if t.DType() == tensor.Int64 {
				for _, v := range tensor.Of[int64](t) {
					have = append(have, float64(v))
				}
			} else {
				have = append(have, tensor.Of[float64](t)...)
			}
			if !slices.Equal(have, want[i]) {
				f.Errorf("output %d: got %v, want %v", i, have, want[i])
			}
			t.Release()
		}
	})
	if !told {
		f.Error("the take waits")
	}
}

func TestDense(t *testing.T) {
	f := newFixture(t)
	for _, mean := range []bool{false, true} {
		a := NewDense(f.options(mean, -1, 2))
		shared := f.tensor(tensor.Shape{1, 2}, 1, 2)
		f.fails(a.Apply(nil, 0, shared.Retain()), "")
		f.fails(a.Apply(nil, 0, f.tensor(tensor.Shape{1, 2}, 3, 6)), "")
		f.fails(a.Apply(nil, 0, f.tensor(tensor.Shape{2, 2})), "Shape mismatch: expected [1,2], got [2,2]")
		if n := a.NumAccumulated(); n != 2 {
			t.Errorf("%d gradients", n)
		}
		want := []float64{4, 8}
		if mean {
			want = []float64{2, 4}
		}
		f.taken(a, 2, want)
		if v := tensor.Of[float64](shared); v[0] != 1 || v[1] != 2 {
			t.Errorf("the gradient became %v", v)
		}
		shared.Release()
		// The step is now 1: older gradients are dropped unchecked.
		f.fails(a.Apply(nil, 0, f.tensor(tensor.Shape{7})), "")
		f.fails(a.Apply(nil, 1, f.tensor(tensor.Shape{7})), "Shape mismatch: expected [?,2], got [7]")
		f.fails(a.Apply(nil, 1, f.tensor(tensor.Shape{2, 2}, 1, 2, 3, 4)), "")
		f.fails(a.ApplySparse(nil, 1, Slices{}), "dense")
		was, err := a.SetGlobalStep(nil, 5)
		f.fails(err, "")
		if was != 1 {
			f.Errorf("the step was %d", was)
		}
		f.fails(a.Apply(nil, 4, f.tensor(tensor.Shape{2, 2})), "")
		if n := a.NumAccumulated(); n != 1 {
			t.Errorf("%d gradients", n)
		}
		a.Close()
		f.taken1(a, status.Aborted)
	}
}

func (f fixture) taken1(a *Accumulator, want status.Code) {
	f.Helper()
	a.Take(context.Background(), nil, 1, func(_ []*tensor.Tensor, err error) {
		if status.CodeOf(err) != want {
			f.Errorf("got %v", err)
		}
	})
}

func TestSparse(t *testing.T) {
	f := newFixture(t)
	for _, mean := range []bool{false, true} {
		a := NewSparse(f.options(mean, 4, 2))
		f.applySparse(a, 0, f.slices(tensor.Shape{2, 2}, []int64{0, 2}, 1, 1, 2, 2), "")
		f.applySparse(a, 0, f.slices(tensor.Shape{2, 2}, []int64{1, 2}, 10, 10, 20, 20), "")
		f.applySparse(a, 0, f.slices(tensor.Shape{1, 2}, []int64{2}, 200, 200), "")
		rows := []float64{1, 1, 10, 10, 222, 222}
		if mean {
			rows = []float64{1, 1, 10, 10, 74, 74}
		}
		f.taken(a, 3, []float64{0, 1, 2}, rows, []float64{4, 2})
		f.applySparse(a, 1, f.slices(tensor.Shape{1, 2}, []int64{4}, 1, 1), "Shape mismatch: index of slice 0 exceeded limits of shape; index is 4 exceeded 4")
		f.applySparse(a, 1, f.slices(tensor.Shape{1, 3}, []int64{3}, 1, 1, 1), "Shape mismatch: expected values dim 1 to be 2, got 3")
		f.applySparse(a, 1, f.slices(tensor.Shape{1}, []int64{3}, 1), "Shape mismatch: expected values rank at least 2, got 1")
		f.applySparse(a, 1, f.slices(tensor.Shape{2, 2}, []int64{3}, 1), "Expected 1 non-empty input values, got 2")
		f.applySparse(a, 1, f.slices(tensor.Shape{}, []int64{3}, 1), "Values cannot be 0-dimensional.")
		for _, c := range []struct {
			shape []int64
			want  string
		}{
			{[]int64{5, 2}, "Shape mismatch: expected shape dim 0 to be 4, got 5"},
			{[]int64{4, 3}, "Shape mismatch: expected shape dim 1 to be 2, got 3"},
			{[]int64{4}, "Shape mismatch: expected shape rank at least 2, got 1"},
			{[]int64{4, 2}, ""},
		} {
			whole := f.slices(tensor.Shape{1, 2}, []int64{3}, 1, 1)
			whole.Shape, _ = tensor.FromSlice(tensor.Int64, tensor.Shape{int64(len(c.shape))}, c.shape)
			f.applySparse(a, 1, whole, c.want)
		}
		f.applySparse(a, 1, f.slices(tensor.Shape{1, 2}, []int64{3}, 1, 1), "")
		f.applySparse(a, 1, f.slices(tensor.Shape{1, 2, 1}, []int64{3}, 1, 1), "Shape mismatch: expected values rank 2, got 3")
		a.Close()
	}
}

func TestTakeWaitsInOrder(t *testing.T) {
	f := newFixture(t)
	a := NewDense(f.options(false))
	var got []float64
	take := func(n int) func(error) {
		return a.Take(context.Background(), nil, n, func(out []*tensor.Tensor, err error) {
			if err != nil {
				got = append(got, -float64(status.CodeOf(err)))
				return
			}
			got = append(got, tensor.Of[float64](out[0])[0])
			out[0].Release()
		})
	}
	take(0)
	take(2)
	cancel := take(3)
	take(1)
	for step := range int64(3) {
		f.fails(a.Apply(nil, step, f.tensor(nil, 1)), "") // two for step 0: the second is applied before the first is taken
		f.fails(a.Apply(nil, step, f.tensor(nil, 1)), "")
		if step == 0 {
			cancel(nil)
		}
	}
	if want := []float64{-3, 2, -1, 1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	a.Close()
}

// TestConcurrentApplies checks that each gradient of many concurrent appliers is in exactly one sum.
func TestConcurrentApplies(t *testing.T) {
	f := newFixture(t)
	a := NewDense(f.options(false))
	const appliers, each = 8, 50
	sums := make(chan float64, appliers*each)
	for range appliers * each / 4 {
		a.Take(context.Background(), nil, 4, func(out []*tensor.Tensor, err error) {
			if err != nil {
				t.Error(err)
				return
			}
			sums <- tensor.Of[float64](out[0])[0]
			out[0].Release()
		})
	}
	var all sync.WaitGroup
	for range appliers {
		all.Go(func() {
			for range each {
				f.fails(a.Apply(nil, 1<<40, f.tensor(nil, 1)), "")
			}
		})
	}
	all.Wait()
	total := 0.0
	for range appliers * each / 4 {
		total += <-sums
	}
	if total != appliers*each {
		t.Errorf("%g of %d gradients", total, appliers*each)
	}
	a.Close()
}

// TestSumOnItsWayToTheDisk checks that what holds a sum for the disk stays as it is while gradients are added, and when the mean is taken.
func TestSumOnItsWayToTheDisk(t *testing.T) {
	f := newFixture(t)
	dense, sparse := NewDense(f.options(true, 2)), NewSparse(f.options(true, -1, 2))
	for name, a := range map[string]*Accumulator{"dense": dense, "sparse": sparse} {
		apply := func(v float64) {
			if a == dense {
				f.fails(a.Apply(nil, 0, f.tensor(tensor.Shape{2}, v, v)), "")
			} else {
				f.applySparse(a, 0, f.slices(tensor.Shape{1, 2}, []int64{3}, v, v), "")
			}
		}
		apply(1)
		head, first := a.sum.parts(nil)
		apply(2)
		_, second := a.sum.parts(nil)
		if a == dense {
			f.taken(a, 2, []float64{1.5, 1.5})
		} else {
			f.taken(a, 2, []float64{3}, []float64{1.5, 1.5}, []float64{-1, 2})
		}
		for want, parts := range map[float64]tuple.Tuple{1: first, 3: second} {
			if got := tensor.Of[float64](parts[0])[0]; got != want {
				t.Errorf("%s: the sum %v became %v", name, want, got)
			}
		}
		if !a.sum.restore(head, first) || a.sum.restore(append(head, 1), second) {
			t.Errorf("%s: what is on disk is not read as it was written", name)
		}
		second.Release()
		a.Close()
	}
}
