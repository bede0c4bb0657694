package containers

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
)

// kept is a manager whose containers are durable.
type kept struct {
	*Manager
	t        *testing.T
	store    *durable.Store
	pictures *Pictures
}

// openKept opens a directory. The containers are kept by pictures if every is not 0.
func openKept(t *testing.T, dir string, every time.Duration) *kept {
	t.Helper()
	return keptIn(t, dir, every, durable.Options{})
}

func keptIn(t *testing.T, dir string, every time.Duration, o durable.Options) *kept {
	t.Helper()
	o.Owner, o.Log = "/job:test/task:0", slog.New(slog.DiscardHandler)
	store, err := durable.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	k := &kept{NewManager(nil, "dev", "local"), t, store, NewPictures(store, slog.New(slog.DiscardHandler))}
	k.Keep(k.pictures, func(string) (time.Duration, bool) { return every, true })
	err = store.Load(func(c *durable.Cell, p durable.Place, about []byte) error {
		v, err := k.RestoreVariable(c, p.Container, about, tensor.Host)
		if err != nil {
			return err
		}
		return k.Restore(c, p.Container, p.Kind, p.Name, v)
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// crash ends everything without writing what is not written.
func (k *kept) crash() {
	k.t.Helper()
	k.pictures.die()
	k.pictures.work.Wait()
	for _, t := range k.pictures.closed {
		t.Release()
	}
	if err := k.store.Close(); err != nil {
		k.t.Fatal(err)
	}
}

// stop ends everything in order.
func (k *kept) stop() {
	k.t.Helper()
	for _, end := range []func() error{k.Close, k.pictures.Stop, k.store.Close} {
		if err := end(); err != nil {
			k.t.Fatal(err)
		}
	}
}

// variable returns a variable, which is made if there is none.
func (k *kept) variable(name string, d tensor.DType) *Variable {
	k.t.Helper()
	r, err := k.LookupOrCreate("c", "Var", name, func() (Resource, error) { return NewVariable(name, d), nil })
	if err != nil {
		k.t.Fatal(err)
	}
	return r.(*Variable)
}

func assign(by *durable.Tx, v *Variable, value *tensor.Tensor) error {
	return v.Replace(by, func(*tensor.Tensor) (*tensor.Tensor, error) { return value, nil })
}

// number returns the first element of a variable, or -1 if it has no value.
func number(v *Variable) int64 {
	t := v.Read()
	if t == nil {
		return -1
	}
	defer t.Release()
	return tensor.Of[int64](t)[0]
}

// TestPicturesAreBetweenSteps takes pictures while steps change several variables alike: in each picture they are alike.
func TestPicturesAreBetweenSteps(t *testing.T) {
	dir := t.TempDir()
	const variables, workers = 3, 4
	for round := range 5 {
		k := openKept(t, dir, time.Hour)
		var all []*Variable
		for i := range variables {
			all = append(all, k.variable(fmt.Sprint(i), tensor.Int64))
			if round == 0 {
				if err := assign(nil, all[i], tensor.Scalar(tensor.Int64, int64(0))); err != nil {
					t.Fatal(err)
				}
			} else if first, got := number(all[0]), number(all[i]); got < 1 || got != first {
				t.Fatalf("a picture has %d in variable %d, and %d in the first", got, i, first)
			}
		}
		var over atomic.Bool
		var work sync.WaitGroup
		for range workers {
			work.Go(func() {
				for !over.Load() {
					tx := k.store.Begin()
					for _, v := range all {
						if err := v.Update(tx, tensor.Host, func(t *tensor.Tensor) error { tensor.Of[int64](t)[0]++; return nil }); err != nil {
							t.Error(err)
						}
					}
					tx.End(func(error) {})
				}
			})
		}
		for range 20 {
			if err := k.pictures.take(time.Hour); err != nil {
				t.Error(err)
			}
		}
		over.Store(true)
		work.Wait()
		k.crash()
	}
}

// TestPicturesOfAnything keeps values of several types and sizes, changes how they are kept, and stops in order.
func TestPicturesOfAnything(t *testing.T) {
	long := make([]float32, (2*pieceBytes+40)/4)
	for i := range long {
		long[i] = float32(i)
	}
	of := func(name string) *tensor.Tensor {
		switch name {
		case "long":
			v, _ := tensor.FromValues(long)
			return v
		case "texts":
			v, _ := tensor.FromStrings(tensor.Shape{2}, []string{"a", ""})
			return v
		case "none":
			v, _ := tensor.FromValues([]int32{})
			return v
		}
		return tensor.Scalar(tensor.Bool, true)
	}
	names := []string{"long", "texts", "none", "bool"}
	dir := t.TempDir()
	for round, every := range []time.Duration{time.Hour, time.Hour, 0, 0, time.Hour, 0, time.Hour} {
		k := openKept(t, dir, every)
		for _, name := range names {
			want := of(name)
			v := k.variable(name, want.DType())
			if got := v.Read(); round > 0 {
				if got == nil || !got.Shape().Equal(want.Shape()) || want.DType() != tensor.String && !slices.Equal(got.Data(), want.Data()) ||
					want.DType() == tensor.String && !slices.Equal(got.Strings(), want.Strings()) {
					t.Fatalf("round %d: %s is %v", round, name, got)
				}
				got.Release()
			}
			if round == 0 {
				if err := assign(nil, v, want); err != nil {
					t.Fatal(err)
				}
			}
		}
		k.stop()
	}
	k := openKept(t, dir, time.Hour)
	if err := k.Clear("c"); err != nil {
		t.Fatal(err)
	}
	k.stop()
	k = openKept(t, dir, time.Hour)
	if list, err := k.List(); err != nil || len(list) > 0 {
		t.Errorf("after a Clear there is %v: %v", list, err)
	}
	k.stop()
}

// TestNamesAreFreeAgain deletes and clears resources and makes others of their names: only the last ones are there after a restart.
func TestNamesAreFreeAgain(t *testing.T) {
	for _, every := range []time.Duration{0, time.Hour} {
		dir := t.TempDir()
		k := openKept(t, dir, every)
		for i, remove := range []func() error{
			func() error { return k.Clear("c") },
			func() error { return k.Delete("c", "Var", "x") },
			k.Empty,
			func() error { return nil },
		} {
			v := k.variable("x", tensor.Int64)
			if got := number(v); got != -1 {
				t.Errorf("a new variable has the value %d", got)
			}
			if err := assign(nil, v, tensor.Scalar(tensor.Int64, int64(i))); err != nil {
				t.Fatal(err)
			}
			if err := remove(); err != nil {
				t.Fatal(err)
			}
		}
		k.stop()
		k = openKept(t, dir, every)
		if got := number(k.variable("x", tensor.Int64)); got != 3 {
			t.Errorf("after a restart it is %d", got)
		}
		k.stop()
	}
}

// TestFullDisk checks that a disk without room refuses changes before they are made, and that everything else goes on.
func TestFullDisk(t *testing.T) {
	for _, every := range []time.Duration{0, time.Hour} {
		dir := t.TempDir()
		k := openKept(t, dir, every)
		v := k.variable("x", tensor.Int64)
		if err := assign(nil, v, tensor.Scalar(tensor.Int64, int64(7))); err != nil {
			t.Fatal(err)
		}
		k.stop()
		k = keptIn(t, dir, every, durable.Options{Reserve: 1 << 62})
		v = k.variable("x", tensor.Int64)
		changes := map[string]error{
			"Update":  v.Update(nil, tensor.Host, func(t *tensor.Tensor) error { tensor.Of[int64](t)[0]++; return nil }),
			"Replace": v.Replace(nil, func(old *tensor.Tensor) (*tensor.Tensor, error) { return old.Retain(), nil }),
		}
		_, changes["LookupOrCreate"] = k.LookupOrCreate("c", "Var", "y", func() (Resource, error) { return NewVariable("y", tensor.Int64), nil })
		for what, err := range changes {
			wantCode(t, err, status.ResourceExhausted, "")
			if err == nil {
				t.Errorf("%s changed something", what)
			}
		}
		if got := number(v); got != 7 {
			t.Errorf("the variable has become %d", got)
		}
		k.stop()
	}
}

// TestPicturesWithoutRoom: when a picture cannot be written, variables do not change until one can be. The last one is written in any case.
func TestPicturesWithoutRoom(t *testing.T) {
	dir := t.TempDir()
	of := func(i int64) *tensor.Tensor { return tensor.Scalar(tensor.Int64, i) }
	k := keptIn(t, dir, time.Hour, durable.Options{})
	if err := assign(nil, k.variable("v", tensor.Int64), of(1)); err != nil {
		t.Fatal(err)
	}
	k.stop()
	k = keptIn(t, dir, time.Hour, durable.Options{Limit: 1})
	v := k.variable("v", tensor.Int64)
	if err := assign(nil, v, of(2)); err != nil {
		t.Errorf("before the picture: %v", err)
	}
	larger, err := tensor.FromSlice(tensor.Int64, tensor.Shape{2}, []int64{3, 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := assign(nil, v, larger); status.CodeOf(err) != status.ResourceExhausted || number(v) != 2 {
		t.Errorf("a larger value without room: %v, and it is %d", err, number(v))
	}
	if err := k.pictures.take(time.Hour); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("a picture without room: %v", err)
	}
	if err := assign(nil, v, of(4)); status.CodeOf(err) != status.ResourceExhausted || number(v) != 2 {
		t.Errorf("after a picture that could not be written: %v, and it is %d", err, number(v))
	}
	k.stop()
	k = keptIn(t, dir, time.Hour, durable.Options{Limit: 1 << 30})
	if v = k.variable("v", tensor.Int64); number(v) != 2 {
		t.Errorf("the last picture has %d", number(v))
	}
	for i := range int64(2) {
		if err := assign(nil, v, of(i)); err != nil {
			t.Errorf("with room: %v", err)
		}
		if err := k.pictures.take(time.Hour); err != nil {
			t.Errorf("a picture with room: %v", err)
		}
	}
	k.stop()
}

// mebibytes returns strings of n MiB in all, which are the same mebibyte of memory.
func mebibytes(n int) *tensor.Tensor {
	t, err := tensor.New(tensor.Host, tensor.String, tensor.Shape{int64(n)})
	if err != nil {
		panic(err)
	}
	for i := range t.Strings() {
		t.Strings()[i] = mebibyte
	}
	return t
}

var mebibyte = strings.Repeat("x", 1<<20)

// TestTooLargeToKeep: a value that cannot be kept is refused when it is assigned, or restored. Other variables change as before.
func TestTooLargeToKeep(t *testing.T) {
	dir := t.TempDir()
	k := openKept(t, dir, time.Hour)
	large, other := k.variable("large", tensor.String), k.variable("other", tensor.Int64)
	wantCode(t, assign(nil, large, mebibytes(1025)), status.ResourceExhausted, "1074790400 bytes of strings")
	if large.Initialized() {
		t.Error("it has a value that cannot be kept")
	}
	if err := assign(nil, large, mebibytes(2)); err != nil {
		t.Error(err)
	}
	if err := k.pictures.take(time.Hour); err != nil {
		t.Error(err)
	}
	if err := assign(nil, other, tensor.Scalar(tensor.Int64, int64(1))); err != nil {
		t.Error(err)
	}
	k.stop()

	k = openKept(t, dir, 0)
	wantCode(t, assign(nil, k.variable("large", tensor.String), mebibytes(1025)), status.ResourceExhausted, ":snapshot=30s")
	v := NewVariable("moved", tensor.String)
	v.Assign(mebibytes(1025))
	wantCode(t, k.Adopt("c", "Var", "moved", v), status.ResourceExhausted, ":snapshot=30s")
	k.stop()
}

// TestPicturesTakeLittleMemory: a variable that is kept by pictures needs no room for a second value in the process's memory, neither when it is assigned nor when
// it is written.
func TestPicturesTakeLittleMemory(t *testing.T) {
	k := openKept(t, t.TempDir(), time.Hour)
	v := k.variable("v", tensor.Uint8)
	const size = 2 * pieceBytes
	memory := tensor.NewPool("test", 0)
	zeros := func() *tensor.Tensor {
		value, err := tensor.New(memory, tensor.Uint8, tensor.Shape{size})
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	first, second := zeros(), zeros()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))                      // a collection counts what the files are made of, which depends on when it runs
	tensor.Process.SetLimit((tensor.Process.Held() + size*3/4) * 16 / 15) // a sixteenth is a reserve
	defer tensor.Process.SetLimit(0)
	if err := assign(nil, v, first); err != nil {
		t.Errorf("the first value: %v", err)
	}
	if err := k.pictures.take(time.Hour); err != nil {
		t.Errorf("its picture: %v", err)
	}
	if err := assign(nil, v, second); err != nil {
		t.Errorf("the second value: %v", err)
	}
	if err := k.Clear("c"); err != nil {
		t.Error(err)
	}
	k.stop()
}
