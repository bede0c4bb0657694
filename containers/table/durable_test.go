package table

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/durable/tuple"
	"github.com/troupe-run/troupe/internal/view"
)

func openStore(t *testing.T, dir string) *durable.Store { t.Helper(); return openWith(t, dir, 0) }

func openWith(t *testing.T, dir string, reserve int64) *durable.Store {
	t.Helper()
	s, err := durable.Open(dir, durable.Options{Reserve: reserve, Owner: "/job:test/task:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t *testing.T, s *durable.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// keep makes a table durable in a store, and returns its cell.
func keep(t *testing.T, s *durable.Store, table Table) *durable.Cell {
	t.Helper()
	about, err := table.(interface{ About() ([]byte, error) }).About()
	if err != nil {
		t.Fatal(err)
	}
	cell, err := s.Create(durable.Place{Container: "jobs", Kind: ResourceKind, Name: "t"}, about)
	if err != nil {
		t.Fatal(err)
	}
	table.(interface{ Keep(*durable.Cell) }).Keep(cell)
	return cell
}

// restored returns the table of a store, after the store was opened.
func restored(t *testing.T, s *durable.Store) (table Table) {
	t.Helper()
	err := s.Load(func(c *durable.Cell, _ durable.Place, about []byte) (err error) {
		table, err = Restore(c, about, tensor.Host)
		return err
	})
	if err != nil || table == nil {
		t.Fatalf("no table came back: %v", err)
	}
	t.Cleanup(table.Close)
	return table
}

func commit(t *testing.T, tx *durable.Tx) {
	t.Helper()
	ended := make(chan error, 1)
	tx.End(func(err error) { ended <- err })
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// contents returns the entries of a table of numbers.
func contents(t *testing.T, table Table) map[int64]int64 {
	t.Helper()
	keys, values := exported(t, table)
	m := map[int64]int64{}
	for i, k := range keys {
		if o, err := OptionsOf(table); err == nil && o.Kind == Dense {
			empty, deleted := tensor.Of[int64](o.EmptyKey)[0], tensor.Of[int64](o.DeletedKey)[0]
			o.EmptyKey.Release()
			o.DeletedKey.Release()
			if k == empty || k == deleted {
				continue
			}
		}
		m[k] = values[i]
	}
	return m
}

// TestDurableLikeMap applies random steps to tables through several lives. What the last step of a life changed is not there in the next one,
// since the step did not end; everything else is.
func TestDurableLikeMap(t *testing.T) {
	for _, kind := range []Kind{Mutable, Dense} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, uint64(kind)))
			dir := t.TempDir()
			store := openStore(t, dir)
			table, model := make1(t, Options{Kind: kind}), map[int64]int64{}
			keep(t, store, table)
			for range 5 {
				for range 60 {
					tx := store.Begin()
					for range 1 + rng.IntN(3) {
						change(t, rng, kind, tx, table, model)
					}
					commit(t, tx)
				}
				if got := contents(t, table); !maps.Equal(got, model) {
					t.Fatalf("got %v, want %v", got, model)
				}
				change(t, rng, kind, store.Begin(), table, maps.Clone(model))
				closeStore(t, store)
				store = openStore(t, dir)
				if table = restored(t, store); !maps.Equal(contents(t, table), model) {
					t.Fatalf("after a restart: got %v, want %v", contents(t, table), model)
				}
			}
			closeStore(t, store)
		})
	}
}

// change applies a random change to a table and to the model.
func change(t *testing.T, rng *rand.Rand, kind Kind, tx *durable.Tx, table Table, model map[int64]int64) {
	t.Helper()
	keys := make([]int64, 1+rng.IntN(6))
	values := make([]int64, len(keys))
	for i := range keys {
		keys[i], values[i] = rng.Int64N(40), rng.Int64()
	}
	k, v := vector(t, keys...), vector(t, values...)
	var err error
	switch rng.IntN(8) {
	case 0, 1, 2, 3:
		err = table.Insert(tx, k, v)
	case 4, 5:
		err = table.Remove(tx, k)
		for _, key := range keys {
			delete(model, key)
		}
		keys = nil
	case 6:
		if kind == Dense { // buckets, as Export returns them: those of a small table
			keys, values = []int64{-1, keys[0], -1, -1}, []int64{0, values[0], 0, 0}
			k, v = ints(t, tensor.Shape{4, 1}, keys...), ints(t, tensor.Shape{4, 1}, values...)
			keys, values = keys[1:2], values[1:2]
		}
		err = table.Import(tx, k, v)
		clear(model)
	case 7: // fails, and changes nothing
		keys = nil
		if kind == Dense {
			wants(t, table.Insert(tx, vector(t, 1, -2), vector(t, 1, 1)), status.InvalidArgument, "deleted_key")
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		model[key] = values[i]
	}
}

// TestDurableTypes keeps a table of each pair of types that tables can have. Those whose elements refer to memory are refused.
func TestDurableTypes(t *testing.T) {
	types := []tensor.DType{tensor.Bool, tensor.Int32, tensor.Int64, tensor.Float32, tensor.Float64, tensor.String, tensor.Variant, tensor.Resource}
	kept := 0
	for _, kind := range []Kind{Static, Mutable, Dense} {
		for _, key := range types {
			for _, value := range types {
				for _, shape := range []tensor.Shape{nil, {2}} {
					name := fmt.Sprintf("%d %v->%v%v", kind, key, value, shape)
					o := Options{Kind: kind, Key: key, Value: value, ValueShape: shape, Pool: tensor.Host, Buckets: 4, MaxLoad: 0.5}
					if kind == Dense {
						o.EmptyKey, o.DeletedKey = elements(t, key, tensor.Shape{2}, 0), elements(t, key, tensor.Shape{2}, 1)
					}
					table, err := New(o)
					if status.CodeOf(err) == status.Unimplemented {
						continue
					} else if err != nil {
						t.Fatal(name, err)
					}
					if value == tensor.Variant || value == tensor.Resource {
						_, err := table.(interface{ About() ([]byte, error) }).About()
						wants(t, err, status.FailedPrecondition, "cannot be kept")
						table.Close()
						continue
					}
					survives(t, name, table)
					kept++
				}
			}
		}
	}
	if kept < 50 {
		t.Errorf("only %d kinds of tables were kept", kept)
	}
}

// elements returns a tensor whose elements are different for different seeds.
func elements(t *testing.T, d tensor.DType, shape tensor.Shape, seed byte) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(tensor.Host, d, shape)
	if err != nil {
		t.Fatal(err)
	}
	switch d {
	case tensor.String:
		for i := range x.Len() {
			x.Strings()[i] = fmt.Sprint(seed, "\x00", i)
		}
	case tensor.Bool:
		for i := range x.Len() {
			x.Data()[i] = (seed + byte(i)) % 2
		}
	case tensor.Variant, tensor.Resource:
	default:
		for i := range x.Data() {
			x.Data()[i] = seed + byte(i)%16
		}
	}
	return x
}

// survives keeps a table with some entries, and compares what comes back.
func survives(t *testing.T, name string, table Table) {
	t.Helper()
	dir := t.TempDir()
	store := openStore(t, dir)
	keep(t, store, table)
	batch := tensor.Shape{2}
	if len(table.Key().Shape) > 0 {
		batch = tensor.Shape{1}
	}
	keys := elements(t, table.Key().DType, append(batch, table.Key().Shape...), 7)
	values := elements(t, table.Value().DType, append(batch, table.Value().Shape...), 9)
	defaults := elements(t, table.Value().DType, table.Value().Shape, 50)
	var err error
	tx := store.Begin()
	if s, ok := table.(Initializable); ok {
		err = s.Fill(tx, keys, values, view.StepOrigin{Session: "s"})
	} else {
		err = table.Insert(tx, keys, values)
	}
	if err != nil {
		t.Fatal(name, err)
	}
	commit(t, tx)
	entries, want := table.Len(), find(t, table, keys, defaults)
	closeStore(t, store)
	table.Close()
	store = openStore(t, dir)
	defer closeStore(t, store)
	back := restored(t, store)
	if back.Len() != entries || !back.Key().Shape.Equal(table.Key().Shape) || !back.Value().Shape.Equal(table.Value().Shape) {
		t.Errorf("%s: %s came back, of %d entries", name, back.Describe(), entries)
	}
	if got := find(t, back, keys, defaults); !bytes.Equal(got, want) {
		t.Errorf("%s: got %x, want %x", name, got, want)
	}
	if s, ok := back.(Initializable); ok {
		if filled, ok := s.Initialized(); !ok || filled.By.Session != "s" {
			t.Errorf("%s: initialized %v by %q", name, ok, filled.By.Session)
		}
		wants(t, s.Fill(nil, keys, values, view.StepOrigin{}), status.OK, "")
	}
}

// find returns the encoded values of keys.
func find(t *testing.T, table Table, keys, defaults *tensor.Tensor) []byte {
	t.Helper()
	var out *tensor.Tensor
	if err := table.Find(keys, defaults, func(dtype tensor.DType, shape tensor.Shape) (x *tensor.Tensor, err error) {
		out, err = tensor.New(tensor.Host, dtype, shape)
		return out, err
	}); err != nil {
		t.Fatal(err)
	}
	b, err := (tuple.Tuple{out}).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDamagedTable puts entries into the store that no table has written.
func TestDamagedTable(t *testing.T) {
	for key, value := range map[string]string{"k": "", "k1234567": "12345678", "k12345678": "1234567", "k123456789": "12345678", "x": "", "f": "{}", "": ""} {
		dir := t.TempDir()
		store := openStore(t, dir)
		cell := keep(t, store, make1(t, Options{Kind: Mutable}))
		tx := store.Begin()
		tx.Set(cell, []byte(key), durable.Bytes(value))
		commit(t, tx)
		closeStore(t, store)
		store = openStore(t, dir)
		err := store.Load(func(c *durable.Cell, _ durable.Place, about []byte) error {
			_, err := Restore(c, about, tensor.Host)
			return err
		})
		wants(t, err, status.DataLoss, "cannot be read")
		closeStore(t, store)
	}
	_, err := Restore(nil, []byte("{"), tensor.Host)
	wants(t, err, status.DataLoss, "description")
	_, err = Restore(nil, []byte(`{"Kind":2,"Key":9,"Value":9}`), tensor.Host)
	wants(t, err, status.DataLoss, "no special keys")
}

// TestFullDisk checks that a table whose changes cannot be kept does not change.
func TestFullDisk(t *testing.T) {
	for _, kind := range []Kind{Static, Mutable, Dense} {
		store := openWith(t, t.TempDir(), 1<<60)
		table := make1(t, Options{Kind: kind})
		keep(t, store, table)
		k, v := vector(t, 1), vector(t, 2)
		changes := map[string]error{"import": table.Import(nil, k, v)}
		if kind == Dense {
			changes["import"] = table.Import(nil, ints(t, tensor.Shape{4, 1}, 1, 2, 3, -1), ints(t, tensor.Shape{4, 1}, 1, 2, 3, 0))
		}
		if kind != Static {
			changes["insert"], changes["remove"] = table.Insert(nil, k, v), table.Remove(nil, k)
		}
		for name, err := range changes {
			if status.CodeOf(err) != status.ResourceExhausted || table.Len() != 0 {
				t.Errorf("%v of kind %d: %v, %d entries", name, kind, err, table.Len())
			}
		}
		closeStore(t, store)
	}
}

// TestFurtherInitializations checks that a step that finds a table initialized as it asks is answered after that is on disk.
func TestFurtherInitializations(t *testing.T) {
	store := openStore(t, t.TempDir())
	defer closeStore(t, store)
	made := make1(t, Options{Kind: Static})
	defer made.Close()
	keep(t, store, made)
	fill := func() *durable.Tx {
		tx := store.Begin()
		wants(t, made.(Initializable).Fill(tx, vector(t, 1, 2), vector(t, 3, 4), view.StepOrigin{}), status.OK, "")
		return tx
	}
	first, second := fill(), fill()
	if !second.Changed() {
		t.Error("a further initialization relies on nothing")
	}
	commit(t, first)
	commit(t, second)
	if fill().Changed() {
		t.Error("an initialization relies on what is on disk")
	}
}
