package devices

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

func TestRendezvous(t *testing.T) {
	pool := tensor.NewPool("test", 0)
	wide := func() *tensor.Tensor {
		v, err := tensor.New(pool, tensor.Int64, tensor.Shape{10})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	key := func(edge string, iter int64) kernels.Key {
		return kernels.Key{Edge: edge, Tag: kernels.Tag{Iter: iter}}
	}
	var log []string
	wait := func(name string) func(*tensor.Tensor, bool, error) {
		return func(v *tensor.Tensor, dead bool, err error) {
			log = append(log, fmt.Sprint(name, " ", v != nil, " ", dead, " ", err))
			if v != nil {
				v.Release()
			}
		}
	}
	away := map[string]int{}
	r := NewRendezvous(func(device string) bool { return device == "here" },
		func(_ kernels.Key, dst string, v *tensor.Tensor, _ bool) error {
			away[dst]++
			v.Release()
			return nil
		})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(r.Send(key("a", 0), "here", wide(), false)) // before its receiver
	r.Recv(key("a", 0), wait("a0"))
	r.Recv(key("a", 2), wait("a2")) // after it, and out of order
	r.Recv(key("a", 1), wait("a1"))
	must(r.Send(key("a", 1), "here", nil, true))
	must(r.Send(key("a", 2), "here", wide(), false))
	must(r.Send(key("b", 0), "there", wide(), false))
	must(r.Deposit(key("c", 0), wide(), false))
	wantError(t, r.Deposit(key("c", 0), wide(), false), status.Internal, "c", "twice")
	r.Recv(key("d", 0), wait("d"))
	r.Recv(key("d", 0), wait("d again"))
	if names := r.Expected(10); !slices.Equal(names, []string{"d"}) {
		t.Errorf("expected are %v", names)
	}
	r.Abort(status.Errorf(status.Aborted, "over"))
	r.Abort(status.Errorf(status.Aborted, "over again"))
	r.Recv(key("e", 0), wait("e"))
	wantError(t, r.Send(key("e", 0), "here", wide(), false), status.Aborted, "over")
	want := []string{"a0 true false <nil>", "a1 false true <nil>", "a2 true false <nil>",
		"d again false false The edge d was received twice in one step", "d false false over", "e false false over"}
	if !slices.Equal(log, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(log, "\n"), strings.Join(want, "\n"))
	}
	if away["there"] != 1 {
		t.Errorf("%v left", away)
	}
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes are still in use", n)
	}
}

func TestParallel(t *testing.T) {
	for _, n := range []int{0, 1, 2, 7, 100, 100_003} {
		for _, grain := range []int{0, 1, 3, 1000, 1 << 40} {
			seen := make([]atomic.Int32, n)
			Parallel(n, grain, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					seen[i].Add(1)
				}
			})
			for i := range seen {
				if c := seen[i].Load(); c != 1 {
					t.Fatalf("%d by %d: part %d was done %d times", n, grain, i, c)
				}
			}
		}
	}
	t.Run("nested", func(t *testing.T) {
		var sum atomic.Int64
		Parallel(50, 1, func(lo, hi int) {
			for range hi - lo {
				Parallel(50, 1, func(lo, hi int) { sum.Add(int64(hi - lo)) })
			}
		})
		if sum.Load() != 2500 {
			t.Errorf("%d of 2500 parts were done", sum.Load())
		}
	})
	t.Run("on no more threads than the device has", func(t *testing.T) {
		for threads := range 3 {
			device := NewCPU(nil, "/job:w/replica:0/task:0/device:CPU:0", "w", 0).WithThreads(threads)
			var running, most atomic.Int64
			device.Parallel(200, 1, func(lo, hi int) {
				most.Store(max(most.Load(), running.Add(1)))
				runtime.Gosched()
				running.Add(-1)
			})
			if limit := int64(cmp.Or(threads, cap(helpers)+1)); most.Load() > limit {
				t.Errorf("%d parts at a time on a device of %d threads", most.Load(), threads)
			}
		}
	})
	t.Run("a panic comes to the caller", func(t *testing.T) {
		defer func() {
			if p := recover(); p != "ouch" {
				t.Errorf("recovered %v", p)
			}
			if len(helpers) != 0 {
				t.Errorf("%d helpers are still taken", len(helpers))
			}
		}()
		Parallel(100, 1, func(lo, hi int) {
			if lo <= 57 && 57 < hi {
				panic("ouch")
			}
		})
	})
	t.Run("many at once", func(t *testing.T) {
		var wg sync.WaitGroup
		var sum atomic.Int64
		for range 100 {
			wg.Go(func() { Parallel(1000, 10, func(lo, hi int) { sum.Add(int64(hi - lo)) }) })
		}
		wg.Wait()
		if sum.Load() != 100_000 {
			t.Errorf("%d of 100000 parts were done", sum.Load())
		}
	})
}

// functionsOf makes functions callable on a device, see functionLibrary.
func functionsOf(t *testing.T, d *CPU, bodies map[string]string) *Functions {
	t.Helper()
	def := functionLibrary(t, bodies)
	library, err := (&graph.Library{}).Merge(def)
	if err != nil {
		t.Fatal(err)
	}
	f := NewFunctions(library, d, "s", true, nil)
	t.Cleanup(f.Close)
	return f
}

// call3 calls a function with vectors of three elements.
func call3(t *testing.T, f *Functions, name string, args ...int64) ([]int64, error) {
	t.Helper()
	fn, err := f.Instantiate(&graph.FunctionRef{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	var values []kernels.Value
	for _, a := range args {
		values = append(values, kernels.Value{Tensor: kernelstest.I64(kernelstest.S(3), a, a, a)})
	}
	type result struct {
		values []int64
		err    error
	}
	ended := make(chan result, 1)
	fn.Call(newTestStep(newResults()), values, func(values []kernels.Value, err error) {
		var r result
		r.err = err
		for _, v := range values {
			r.values = append(r.values, tensor.Of[int64](v.Tensor)[0])
			v.Release()
		}
		ended <- r
	})
	r := <-ended
	return r.values, r.err
}

func TestFunctions(t *testing.T) {
	d := newTestDevice(t)
	f := functionsOf(t, d, map[string]string{
		"double(x) -> y":   "two = Const() value=2 wide=true\ny = Mul(x, two:output)",
		"quad(x) -> y":     "x2 = double(x)\ny = double(x2:y)",
		"endless(x) -> y":  "y = endless(x)",
		"bad(x) -> y":      "z = Const() value=0 wide=true\ny = FloorDiv(x, z:output)",
		"deep_bad(x) -> y": "y = bad(x)",
	})
	for range 3 {
		if got, err := call3(t, f, "double", 5); err != nil || got[0] != 10 {
			t.Error(got, err)
		}
		if got, err := call3(t, f, "quad", 5); err != nil || got[0] != 20 {
			t.Error(got, err)
		}
		_, err := call3(t, f, "endless", 5)
		wantError(t, err, status.ResourceExhausted, "endless", fmt.Sprint(maxDepth))
		_, err = call3(t, f, "deep_bad", 5)
		wantError(t, err, status.InvalidArgument, "{{node y}}")
		if strings.Count(err.Error(), "[[") != 1 {
			t.Errorf("a call in a function's body is named: %v", err)
		}
		_, err = call3(t, f, "double", 5, 6)
		wantError(t, err, status.InvalidArgument, "double takes 1 arguments, not 2")
	}
	if _, err := f.Instantiate(&graph.FunctionRef{Name: "nobody"}); status.CodeOf(err) != status.NotFound {
		t.Errorf("an unknown function: %v", err)
	}
}
