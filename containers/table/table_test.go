package table

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

func ints(t *testing.T, shape tensor.Shape, v ...int64) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromSlice(tensor.Int64, shape, v)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func vector(t *testing.T, v ...int64) *tensor.Tensor {
	return ints(t, tensor.Shape{int64(len(v))}, v...)
}

func texts(t *testing.T, shape tensor.Shape, v ...string) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromStrings(shape, v)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func make1(t *testing.T, o Options) Table {
	t.Helper()
	if o.Key == tensor.Invalid {
		o.Key = tensor.Int64
	}
	if o.Value == tensor.Invalid {
		o.Value = tensor.Int64
	}
	if o.Kind == Dense && o.EmptyKey == nil {
		o.EmptyKey, o.DeletedKey = ints(t, nil, -1), ints(t, nil, -2)
	}
	if o.Kind == Dense && o.MaxLoad == 0 {
		o.MaxLoad, o.Buckets = 0.75, 4
	}
	if o.Pool == nil {
		o.Pool = tensor.Host
	}
	table, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	return table
}

func wants(t *testing.T, err error, code status.Code, text string) {
	t.Helper()
	if status.CodeOf(err) != code || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %v %q", err, code, text)
	}
}

// found returns the result of Find.
func found(t *testing.T, table Table, keys, defaults *tensor.Tensor) []int64 {
	t.Helper()
	got, err := lookup(table, keys, defaults)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func lookup(table Table, keys, defaults *tensor.Tensor) ([]int64, error) {
	var out *tensor.Tensor
	err := table.Find(keys, defaults, func(dtype tensor.DType, shape tensor.Shape) (x *tensor.Tensor, err error) {
		out, err = tensor.New(tensor.Host, dtype, shape)
		return out, err
	})
	if err != nil {
		return nil, err
	}
	return tensor.Of[int64](out), nil
}

func exported(t *testing.T, table Table) (keys, values []int64) {
	t.Helper()
	k, v, err := table.Export(tensor.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Release()
	defer v.Release()
	return slices.Clone(tensor.Of[int64](k)), slices.Clone(tensor.Of[int64](v))
}

// TestLikeMap applies random operations to both kinds of tables that can change, and to a map.
func TestLikeMap(t *testing.T) {
	for _, kind := range []Kind{Mutable, Dense} {
		rng := rand.New(rand.NewPCG(1, uint64(kind)))
		table, oracle := make1(t, Options{Kind: kind}), map[int64]int64{}
		for step := range 3000 {
			keys := make([]int64, 1+rng.IntN(6))
			values := make([]int64, len(keys))
			for i := range keys {
				keys[i], values[i] = rng.Int64N(40), rng.Int64()
			}
			k, v := vector(t, keys...), vector(t, values...)
			switch rng.IntN(5) {
			case 0, 1:
				wants(t, table.Insert(nil, k, v), status.OK, "")
				for i := range keys {
					oracle[keys[i]] = values[i]
				}
			case 2, 3:
				wants(t, table.Remove(nil, k), status.OK, "")
				for _, k := range keys {
					delete(oracle, k)
				}
			case 4:
				// Later changes must not affect exported tensors.
				ek, ev, err := table.Export(tensor.Host)
				if err != nil {
					t.Fatal(err)
				}
				wants(t, table.Remove(nil, k), status.OK, "")
				wants(t, table.Import(nil, ek, ev), status.OK, "")
				ek.Release()
				ev.Release()
			}
			all := make([]int64, 40)
			for i := range all {
				all[i] = int64(i)
			}
			for i, got := range found(t, table, vector(t, all...), ints(t, nil, -7)) {
				want, ok := oracle[int64(i)]
				if !ok {
					want = -7
				}
				if got != want {
					t.Fatalf("kind %d, step %d: key %d is %d, not %d", kind, step, i, got, want)
				}
			}
			if table.Len() != len(oracle) {
				t.Fatalf("kind %d, step %d: %d entries, not %d", kind, step, table.Len(), len(oracle))
			}
		}
	}
}

// TestDenseFull removes entries from all buckets, so no empty bucket ends the search.
func TestDenseFull(t *testing.T) {
	table := make1(t, Options{Kind: Dense, MaxLoad: 0.9, Buckets: 4})
	for k := range int64(64) {
		wants(t, table.Insert(nil, vector(t, k), vector(t, k)), status.OK, "")
		wants(t, table.Remove(nil, vector(t, k)), status.OK, "")
	}
	if got := found(t, table, vector(t, 1, 99), ints(t, nil, 5)); !slices.Equal(got, []int64{5, 5}) || table.Len() != 0 {
		t.Error(got, table.Len())
	}
}

// TestDenseLayout checks that entries are in the same buckets as in TensorFlow, since its checkpoints store them so.
func TestDenseLayout(t *testing.T) {
	table := make1(t, Options{Kind: Dense})
	want := func(keys, values []int64) {
		t.Helper()
		if k, v := exported(t, table); !slices.Equal(k, keys) || !slices.Equal(v, values) {
			t.Errorf("got %v %v", k, v)
		}
	}
	insert := func(keys, values *tensor.Tensor) {
		t.Helper()
		wants(t, table.Insert(nil, keys, values), status.OK, "")
	}
	want([]int64{-1, -1, -1, -1}, []int64{0, 0, 0, 0})
	insert(vector(t, 11, 12, 13), vector(t, 1, 2, 3))
	want([]int64{12, 13, -1, 11}, []int64{2, 3, 0, 1})
	insert(vector(t, 14), vector(t, 4))
	want([]int64{-1, -1, -1, 11, 12, 13, 14, -1}, []int64{0, 0, 0, 1, 2, 3, 4, 0})
	wants(t, table.Remove(nil, vector(t, 12, 99)), status.OK, "")
	want([]int64{-1, -1, -1, 11, -2, 13, 14, -1}, []int64{0, 0, 0, 1, 2, 3, 4, 0})
	insert(vector(t, 28), vector(t, 5))
	want([]int64{-1, -1, -1, 11, 28, 13, 14, -1}, []int64{0, 0, 0, 1, 5, 3, 4, 0})

	words := make1(t, Options{Kind: Dense, Key: tensor.String, EmptyKey: texts(t, nil, "E"), DeletedKey: texts(t, nil, "D"), MaxLoad: 0.8, Buckets: 16})
	list := []string{"apple", "banana", strings.Repeat("x", 7), strings.Repeat("y", 8), strings.Repeat("z", 9), "", strings.Repeat("w", 33)}
	wants(t, words.Insert(nil, texts(t, tensor.Shape{7}, list...), vector(t, 0, 1, 2, 3, 4, 5, 6)), status.OK, "")
	k, v, err := words.Export(tensor.Host)
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range []int{10, 1, 15, 2, 8, 11, 6} {
		if k.Strings()[at] != list[i] || tensor.Of[int64](v)[at] != int64(i) {
			t.Errorf("%q is not in bucket %d", list[i], at)
		}
	}
	pairs := make1(t, Options{Kind: Dense, Key: tensor.String, EmptyKey: texts(t, tensor.Shape{2}, "E", "E"), DeletedKey: texts(t, tensor.Shape{2}, "D", "D"), MaxLoad: 0.8, Buckets: 8})
	wants(t, pairs.Insert(nil, texts(t, tensor.Shape{2, 2}, "a", "b", "cc", ""), vector(t, 1, 2)), status.OK, "")
	if _, v := exportedAny(t, pairs); v[5] != 1 || v[3] != 2 {
		t.Error(v)
	}
}

func exportedAny(t *testing.T, table Table) (*tensor.Tensor, []int64) {
	t.Helper()
	k, v, err := table.Export(tensor.Host)
	if err != nil {
		t.Fatal(err)
	}
	return k, tensor.Of[int64](v)
}

func TestDenseRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		text   string
	}{
		{func(o *Options) { o.Buckets = 12 }, "Number of buckets must be at least 4 and a power of 2, got: 12"},
		{func(o *Options) { o.Buckets = 2 }, "Number of buckets must be at least 4 and a power of 2, got: 2"},
		{func(o *Options) { o.MaxLoad = 1.5 }, "max_load_factor must be between 0 and 1, got: 1.5"},
		{func(o *Options) { o.DeletedKey = o.EmptyKey }, "Empty and deleted keys cannot be equal"},
		{func(o *Options) { o.EmptyKey = ints(t, tensor.Shape{2}, 1, 2) }, "Empty and deleted keys must have same shape, got shapes: [2] and []"},
		{func(o *Options) { o.EmptyKey = ints(t, tensor.Shape{1, 1}, 1) }, "Empty key must be a scalar or a vector, got shape [1,1]"},
		{func(o *Options) { o.ValueShape = tensor.Shape{1, 1} }, "Empty value must be a scalar or a vector, got shape [1,1]"},
	} {
		o := Options{Kind: Dense, Key: tensor.Int64, Value: tensor.Int64, EmptyKey: ints(t, nil, -1), DeletedKey: ints(t, nil, -2), MaxLoad: 0.8, Buckets: 4, Pool: tensor.Host}
		c.change(&o)
		_, err := New(o)
		wants(t, err, status.InvalidArgument, c.text)
	}
	small := tensor.NewPool("small", 1<<10)
	_, err := New(Options{Kind: Dense, Key: tensor.Int64, Value: tensor.Int64, EmptyKey: ints(t, nil, -1), DeletedKey: ints(t, nil, -2), MaxLoad: 0.8, Buckets: 1 << 40, Pool: small})
	wants(t, err, status.ResourceExhausted, "OOM")

	table := make1(t, Options{Kind: Dense})
	wants(t, table.Insert(nil, vector(t, 5, -1), vector(t, 1, 1)), status.InvalidArgument, "Using the empty_key as a table key is not allowed")
	wants(t, table.Remove(nil, vector(t, -2)), status.InvalidArgument, "Using the deleted_key as a table key is not allowed")
	wants(t, table.Insert(nil, ints(t, tensor.Shape{1, 2}, 1, 2), ints(t, tensor.Shape{1, 2}, 1, 2)), status.InvalidArgument, "Expected key shape [1] got [1,2]")
	wants(t, table.Import(nil, ints(t, tensor.Shape{2, 1}, 1, 2), ints(t, tensor.Shape{1, 1}, 1)), status.InvalidArgument, "Expected shape [2,1] for value, got [1,1]")
	wants(t, table.Import(nil, vector(t), vector(t)), status.InvalidArgument, "matrix of buckets")
	wants(t, table.Import(nil, ints(t, tensor.Shape{3, 1}, 1, 2, -1), ints(t, tensor.Shape{3, 1}, 3, 4, 0)), status.OK, "")
	wants(t, table.Insert(nil, vector(t, 9), vector(t, 9)), status.InvalidArgument, "Number of buckets must be at least 4 and a power of 2, got: 6")
	table.Close()
	wants(t, table.Insert(nil, vector(t, 1), vector(t, 1)), status.NotFound, "deleted")
	_, err = lookup(table, vector(t, 1), ints(t, nil, 0))
	wants(t, err, status.NotFound, "deleted")
}

// TestMemoryComesBack checks that tables return all memory to their pool, including anonymous tables.
func TestMemoryComesBack(t *testing.T) {
	pool := tensor.NewPool("test", 0)
	keep := func() Table {
		table, err := New(Options{Kind: Dense, Key: tensor.Int64, Value: tensor.Int64, EmptyKey: ints(t, nil, -1), DeletedKey: ints(t, nil, -2), MaxLoad: 0.8, Buckets: 1 << 10, Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		keys := make([]int64, 5000)
		for i := range keys {
			keys[i] = int64(i)
		}
		wants(t, table.Insert(nil, vector(t, keys...), vector(t, keys...)), status.OK, "")
		return table
	}
	table := keep()
	k, v, err := table.Export(pool)
	if err != nil {
		t.Fatal(err)
	}
	wants(t, table.Insert(nil, vector(t, 7), vector(t, 70)), status.OK, "")
	if at := slices.Index(tensor.Of[int64](k), 7); tensor.Of[int64](v)[at] != 7 {
		t.Error("an exported value changed")
	}
	table.Close()
	k.Release()
	v.Release()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes are still in use", n)
	}
	closed := make(chan struct{})
	func() {
		a := Collected(&notice{keep(), closed})
		if a.Len() != 5000 {
			t.Error(a.Len())
		}
	}()
	for range 100 {
		runtime.GC()
		select {
		case <-closed:
			if n := pool.Stats().InUse; n != 0 {
				t.Errorf("%d bytes are still in use", n)
			}
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("an anonymous table that nobody has was not closed")
}

// notice records when a table is closed.
type notice struct {
	Table
	closed chan struct{}
}

func (n *notice) Close() {
	n.Table.Close()
	close(n.closed)
}

func TestStatic(t *testing.T) {
	s := make1(t, Options{Kind: Static, Key: tensor.String})
	word := func(v ...string) *tensor.Tensor { return texts(t, tensor.Shape{int64(len(v))}, v...) }
	_, err := lookup(s, word("a"), ints(t, nil, -1))
	wants(t, err, status.FailedPrecondition, "Table not initialized.")
	_, _, err = s.Export(tensor.Host)
	wants(t, err, status.Aborted, "HashTable is not initialized.")
	wants(t, s.Import(nil, word("a", "a"), vector(t, 1, 2)), status.FailedPrecondition, "HashTable has different value for same key. Key a has 1 and trying to add value 2")
	wants(t, s.Import(nil, word(), vector(t)), status.InvalidArgument, "keys and values cannot be empty tensors.")
	wants(t, s.Import(nil, word("a"), vector(t, 1, 2)), status.InvalidArgument, "Expected shape [1] for value, got [2]")
	if s.Len() != 0 {
		t.Error("a failed initialization left entries")
	}
	wants(t, s.Import(nil, word("b", "c", "b"), vector(t, 5, 6, 5)), status.OK, "")
	if got := found(t, s, word("c", "a"), ints(t, nil, -1)); !slices.Equal(got, []int64{6, -1}) {
		t.Error(got)
	}
	wants(t, s.Import(nil, word("x", "y"), vector(t, 1, 1)), status.OK, "")
	if err := s.Import(nil, word("x"), vector(t, 1)); !IsDifferent(err) {
		t.Error(err)
	}
	wants(t, s.Insert(nil, word("a"), vector(t, 1)), status.Unimplemented, "Insert not supported")
	wants(t, s.Remove(nil, word("a")), status.Unimplemented, "Remove not supported")
	if d := s.Describe(); d != fmt.Sprintf("HashTable string[]->int64[], 2 entries, %d bytes", s.Bytes()) || s.Bytes() < 50 {
		t.Error(d)
	}
	_, err = New(Options{Kind: Static, Key: tensor.Int64, Value: tensor.Variant})
	wants(t, err, status.Unimplemented, "")
	_, err = New(Options{Kind: Mutable, Key: tensor.Float32, Value: tensor.Int64})
	wants(t, err, status.Unimplemented, "")
}

// TestBytes checks that the reported memory follows strings and removals.
func TestBytes(t *testing.T) {
	m := make1(t, Options{Kind: Mutable, Key: tensor.String, Value: tensor.String})
	one := func(s string) *tensor.Tensor { return texts(t, tensor.Shape{1}, s) }
	before := m.Bytes()
	wants(t, m.Insert(nil, one("k"), one(strings.Repeat("v", 1000))), status.OK, "")
	if m.Bytes() < before+1001 {
		t.Error(m.Describe())
	}
	wants(t, m.Insert(nil, one("k"), one("v")), status.OK, "")
	wants(t, m.Remove(nil, one("k")), status.OK, "")
	if got := m.(*mutable[string, string]).entries.extra; got != 0 {
		t.Errorf("%d bytes are counted for nothing", got)
	}
}

// counted is a variant's element that counts its references.
type counted struct{ refs int }

func (c *counted) Retain()  { c.refs++ }
func (c *counted) Release() { c.refs-- }

// TestVariants checks that tables own a reference to each value.
func TestVariants(t *testing.T) {
	for _, kind := range []Kind{Mutable, Dense} {
		a, b := &counted{1}, &counted{1}
		hold := func(v ...any) *tensor.Tensor {
			x, err := tensor.New(tensor.Host, tensor.Variant, tensor.Shape{int64(len(v))})
			if err != nil {
				t.Fatal(err)
			}
			copy(x.Variants(), v)
			tensor.RetainVariants(v)
			return x
		}
		table := make1(t, Options{Kind: kind, Value: tensor.Variant})
		in := hold(a, b, a)
		wants(t, table.Insert(nil, vector(t, 1, 2, 3), in), status.OK, "")
		in.Release()
		in = hold(b)
		wants(t, table.Insert(nil, vector(t, 1), in), status.OK, "")
		in.Release()
		if a.refs != 2 || b.refs != 3 {
			t.Errorf("kind %d: %d and %d references", kind, a.refs, b.refs)
		}
		k, v, err := table.Export(tensor.Host)
		if err != nil {
			t.Fatal(err)
		}
		wants(t, table.Remove(nil, vector(t, 3)), status.OK, "")
		k.Release()
		v.Release()
		table.Close()
		if a.refs != 1 || b.refs != 1 {
			t.Errorf("kind %d: in the end %d and %d references", kind, a.refs, b.refs)
		}
	}
}

// TestConcurrent checks that readers see each change as a whole.
func TestConcurrent(t *testing.T) {
	for _, kind := range []Kind{Mutable, Dense} {
		table := make1(t, Options{Kind: kind})
		wants(t, table.Insert(nil, vector(t, 1, 2), vector(t, 0, 0)), status.OK, "")
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := range int64(300) {
					if g == 0 {
						extra := 10 + i
						if err := table.Insert(nil, vector(t, 1, extra, 2), vector(t, i, i, i)); err != nil {
							t.Error(err)
						}
						continue
					}
					got, err := lookup(table, vector(t, 1, 2), ints(t, nil, -1))
					if err != nil || got[0] != got[1] {
						t.Errorf("%v %v", got, err)
						return
					}
					if g == 1 {
						k, v, err := table.Export(tensor.Host)
						if err != nil {
							t.Error(err)
							return
						}
						k.Release()
						v.Release()
					}
				}
			})
		}
		wg.Wait()
	}
}
