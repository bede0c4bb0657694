package lookup_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func TestTableOpsLikeTensorFlow(t *testing.T) {
	kt.LikeTensorFlow(t, "testdata/tableops.jsonl.gz", func(c *kt.Case) bool {
		c.Tolerance = 1e-5 // of distances, which are summed in another order
		return true
	})
}

// tables runs ops on one table, V1 or V2.
type tables struct {
	*testing.T
	d       *kt.Device
	attrs   kt.Attrs
	version string
	made    kernels.Value
}

func newTable(t *testing.T, d *kt.Device, op, version string, attrs kt.Attrs, inputs ...any) *tables {
	t.Helper()
	all := kt.Attrs{"container": "", "shared_name": "", "use_node_name_sharing": false, "delimiter": "\t", "vocab_size": -1, "offset": 0}
	for k, v := range attrs {
		all[k] = v
	}
	for from, to := range map[string][]string{"key_dtype": {"Tin", "Tkey", "Tkeys"}, "value_dtype": {"Tout", "Tval", "Tvalues"}} {
		for _, name := range to {
			all[name] = all[from]
		}
	}
	w := &tables{t, d, all, version, d.Run(t, kt.Op{Type: op + version, Attrs: all, Outputs: 1, Session: "s"}, inputs...)[0]}
	t.Cleanup(w.made.Release)
	return w
}

func (w *tables) handle() any {
	if w.made.Ref != nil {
		return w.made.Ref
	}
	return w.made.Tensor.Retain()
}

func (w *tables) op(name string, outputs int) kt.Op {
	return kt.Op{Type: name + w.version, Attrs: w.attrs, Outputs: outputs}
}

func (w *tables) run(op string, outputs int, inputs ...any) []kernels.Value {
	w.Helper()
	return w.d.Run(w.T, w.op(op, outputs), append([]any{w.handle()}, inputs...)...)
}

func (w *tables) fails(code status.Code, text, op string, outputs int, inputs ...any) {
	w.Helper()
	kt.Fails(w.T, w.d, code, text, w.op(op, outputs), append([]any{w.handle()}, inputs...)...)
}

var wordsToNumbers = kt.Attrs{"key_dtype": tensor.String, "value_dtype": tensor.Int64}

func TestLookupTables(t *testing.T) {
	for _, version := range []string{"", "V2"} {
		t.Run("HashTable"+version, func(t *testing.T) {
			w := newTable(t, kt.NewDevice(t), "HashTable", version, wordsToNumbers)
			ab, twelve := kt.Str(kt.S(2), "a", "b"), kt.I64(kt.S(2), 1, 2)
			kt.Expect(t, w.run("LookupTableSize", 1), kt.I64(nil, 0))
			w.fails(status.FailedPrecondition, "Table not initialized.", "LookupTableFind", 1, ab.Retain(), kt.I64(nil, -1))
			w.fails(status.InvalidArgument, "Keys and values must have the same size 2 vs 1", "InitializeTable", 0, ab.Retain(), kt.I64(kt.S(1), 1))
			w.run("InitializeTable", 0, ab.Retain(), twelve.Retain())
			w.run("InitializeTable", 0, kt.Str(kt.S(2), "x", "y"), twelve.Retain())
			w.fails(status.FailedPrecondition, "Table was already initialized with different data.", "InitializeTable", 0, kt.Str(kt.S(1), "x"), kt.I64(kt.S(1), 1))
			kt.Expect(t, w.run("LookupTableFind", 1, kt.Str(kt.S(1, 2), "b", "z"), kt.I64(nil, -1)), kt.I64(kt.S(1, 2), 2, -1))
			kt.Expect(t, w.run("LookupTableExport", 2), ab.Retain(), twelve.Retain())
			w.fails(status.Unimplemented, "Insert not supported", "LookupTableInsert", 0, ab.Retain(), twelve.Retain())
			w.fails(status.InvalidArgument, "Expected shape [] or [2] for default value, got [3]", "LookupTableFind", 1, ab.Retain(), kt.I64(kt.S(3), 1, 2, 3))
			ab.Release()
			twelve.Release()
		})
		t.Run("MutableHashTable"+version, func(t *testing.T) {
			w := newTable(t, kt.NewDevice(t), "MutableHashTable", version, wordsToNumbers)
			w.run("LookupTableInsert", 0, kt.Str(kt.S(3), "a", "b", "a"), kt.I64(kt.S(3), 1, 2, 3))
			kt.Expect(t, w.run("LookupTableFind", 1, kt.Str(kt.S(3), "a", "b", "c"), kt.I64(kt.S(3), 5, 6, 7)), kt.I64(kt.S(3), 3, 2, 7))
			w.run("LookupTableImport", 0, kt.Str(kt.S(1), "n"), kt.I64(kt.S(1), 9))
			kt.Expect(t, w.run("LookupTableExport", 2), kt.Str(kt.S(1), "n"), kt.I64(kt.S(1), 9))
			kt.Expect(t, w.run("LookupTableSize", 1), kt.I64(nil, 1))
			w.fails(status.InvalidArgument, "Expected shape [1] for value, got [2]", "LookupTableInsert", 0, kt.Str(kt.S(1), "n"), kt.I64(kt.S(2), 9, 9))
			w.fails(status.InvalidArgument, "is not initializable", "InitializeTable", 0, kt.Str(kt.S(1), "n"), kt.I64(kt.S(1), 9))
			handle := map[string]string{"": "string_ref", "V2": "resource"}[version]
			w.attrs["Tin"] = tensor.Int64
			w.fails(status.InvalidArgument, "Signature mismatch, have: "+handle+", int64, int64-> expected: "+handle+", string, int64->", "LookupTableInsert", 0, kt.I64(kt.S(1), 1), kt.I64(kt.S(1), 1))
		})
	}
	t.Run("MutableHashTableOfTensorsV2", func(t *testing.T) {
		attrs := kt.Attrs{"key_dtype": tensor.Int64, "value_dtype": tensor.Float32, "value_shape": kt.S(2)}
		w := newTable(t, kt.NewDevice(t), "MutableHashTableOfTensors", "V2", attrs)
		w.run("LookupTableInsert", 0, kt.I64(kt.S(2), 1, 2), kt.F32(kt.S(2, 2), 1, 2, 3, 4))
		kt.Expect(t, w.run("LookupTableFind", 1, kt.I64(kt.S(2), 1, 3), kt.F32(kt.S(2), 0, -1)), kt.F32(kt.S(2, 2), 1, 2, 0, -1))
		kt.Expect(t, w.run("LookupTableFind", 1, kt.I64(kt.S(2), 5, 6), kt.F32(kt.S(2, 2), 5, 6, 7, 8)), kt.F32(kt.S(2, 2), 5, 6, 7, 8))
		w.run("LookupTableRemove", 0, kt.I64(kt.S(2), 1, 99))
		kt.Expect(t, w.run("LookupTableExport", 2), kt.I64(kt.S(1), 2), kt.F32(kt.S(1, 2), 3, 4))
		attrs["value_shape"] = kt.S()
		kt.Fails(t, w.d, status.InvalidArgument, "Default value must be a vector, got shape []", kt.Op{Type: "AnonymousMutableHashTableOfTensors", Attrs: attrs, Outputs: 1})
	})
	t.Run("MutableDenseHashTableV2", func(t *testing.T) {
		attrs := kt.Attrs{"key_dtype": tensor.Int64, "value_dtype": tensor.Int64, "value_shape": kt.S(), "initial_num_buckets": 4, "max_load_factor": float32(0.75)}
		w := newTable(t, kt.NewDevice(t), "MutableDenseHashTable", "V2", attrs, kt.I64(nil, -1), kt.I64(nil, -2))
		w.run("LookupTableInsert", 0, kt.I64(kt.S(3), 11, 12, 13), kt.I64(kt.S(3), 1, 2, 3))
		kt.Expect(t, w.run("LookupTableExport", 2), kt.I64(kt.S(4, 1), 12, 13, -1, 11), kt.I64(kt.S(4, 1), 2, 3, 0, 1))
		w.fails(status.InvalidArgument, "Using the empty_key as a table key is not allowed", "LookupTableFind", 1, kt.I64(kt.S(1), -1), kt.I64(nil, 0))
		w.attrs["container"], w.attrs["shared_name"] = "", "first version"
		kt.Fails(t, w.d, status.InvalidArgument, "Unknown input name: deleted_key", kt.Op{Type: "MutableDenseHashTable", Attrs: w.attrs, Outputs: 1}, kt.I64(nil, -1))
	})
}

// TestLookupTablesShared checks that tables of all kinds share names, but only if they have the same types.
func TestLookupTablesShared(t *testing.T) {
	d := kt.NewDevice(t)
	attrs := kt.Attrs{"key_dtype": tensor.String, "value_dtype": tensor.Int64, "shared_name": "s"}
	a := newTable(t, d, "HashTable", "V2", attrs)
	b := newTable(t, d, "MutableHashTable", "", attrs)
	a.run("InitializeTable", 0, kt.Str(kt.S(1), "a"), kt.I64(kt.S(1), 1))
	kt.Expect(t, b.run("LookupTableSize", 1), kt.I64(nil, 1))
	a.attrs["value_dtype"] = tensor.Float32
	kt.Fails(t, d, status.InvalidArgument, "Conflicting key/value dtypes string->float with string-int64 for table s", kt.Op{Type: "HashTableV2", Attrs: a.attrs, Outputs: 1})
	found, err := d.Resources().List()
	if err != nil || len(found) != 1 || !strings.HasPrefix(containers.Describe(found[0].Resource), "HashTable string[]->int64[], 1 entries, ") {
		t.Error(found, err)
	}
	if err := d.Resources().Empty(); err != nil {
		t.Fatal(err)
	}
	a.fails(status.NotFound, "", "LookupTableSize", 1)
	b.fails(status.NotFound, "", "LookupTableSize", 1)
}

// TestAnonymousTables checks that each execution creates its own table, which is reachable only by its handle.
func TestAnonymousTables(t *testing.T) {
	d := kt.NewDevice(t)
	op := kt.Op{Type: "AnonymousHashTable", Attrs: wordsToNumbers, Outputs: 1}
	a, b := d.Run(t, op)[0].Tensor, d.Run(t, op)[0].Tensor
	defer a.Release()
	defer b.Release()
	init := kt.Op{Type: "InitializeTableV2", Attrs: kt.Attrs{"Tkey": tensor.String, "Tval": tensor.Int64}}
	d.Run(t, init, a.Retain(), kt.Str(kt.S(1), "a"), kt.I64(kt.S(1), 1))
	size := kt.Op{Type: "LookupTableSizeV2", Attrs: kt.Attrs{}, Outputs: 1}
	kt.Expect(t, d.Run(t, size, a.Retain()), kt.I64(nil, 1))
	kt.Expect(t, d.Run(t, size, b.Retain()), kt.I64(nil, 0))
	wire := a.Handles()[0] // as another process sends it back
	wire.Local = nil
	kt.Expect(t, d.Run(t, size, tensor.FromHandle(wire)), kt.I64(nil, 1))
	d.Run(t, kt.Op{Type: "DestroyResourceOp", Attrs: kt.Attrs{"ignore_lookup_error": false}}, a.Retain())
	if found, err := d.Resources().List(); err != nil || len(found) > 0 {
		t.Error(found, err)
	}
}

// TestTextFile compares with TensorFlow's recorded results for each of these files.
func TestTextFile(t *testing.T) {
	const line, whole = -1, -2
	str, i32, i64, f32, f64 := tensor.String, tensor.Int32, tensor.Int64, tensor.Float32, tensor.Float64
	for name, c := range map[string]struct {
		content      string
		keys, values tensor.DType
		key, value   int
		more         kt.Attrs
		want         []*tensor.Tensor
		code         status.Code
		text         string
	}{
		"plain":         {content: "a\nb\n", keys: str, values: i64, key: whole, value: line, want: []*tensor.Tensor{kt.Str(kt.S(2), "a", "b"), kt.I64(kt.S(2), 0, 1)}},
		"no last end":   {content: "a\r\nb", keys: str, values: i64, key: whole, value: line, want: []*tensor.Tensor{kt.Str(kt.S(2), "a", "b"), kt.I64(kt.S(2), 0, 1)}},
		"offset":        {content: "a\nb\n", keys: i64, values: str, key: line, value: whole, more: kt.Attrs{"offset": 10}, want: []*tensor.Tensor{kt.I64(kt.S(2), 10, 11), kt.Str(kt.S(2), "a", "b")}},
		"columns":       {content: "a,1,1e400\nb,2, 7 \n", keys: str, values: f64, key: 0, value: 2, more: kt.Attrs{"delimiter": ","}, want: []*tensor.Tensor{kt.Str(kt.S(2), "a", "b"), kt.F64(kt.S(2), math.Inf(1), 7)}},
		"int32":         {content: "1 5\n2 6\n", keys: i32, values: i32, key: 0, value: 1, more: kt.Attrs{"delimiter": " ", "offset": 10}, want: []*tensor.Tensor{kt.I32(kt.S(2), 11, 12), kt.I32(kt.S(2), 15, 16)}},
		"truncated":     {content: "a\nb\nc\n", keys: str, values: i64, key: whole, value: line, more: kt.Attrs{"vocab_size": 2}, want: []*tensor.Tensor{kt.Str(kt.S(2), "a", "b"), kt.I64(kt.S(2), 0, 1)}},
		"same twice":    {content: "a,1\na,1\n", keys: str, values: i64, key: 0, value: 1, more: kt.Attrs{"delimiter": ","}, want: []*tensor.Tensor{kt.Str(kt.S(1), "a"), kt.I64(kt.S(1), 1)}},
		"too short":     {content: "a\n", keys: str, values: i64, key: whole, value: line, more: kt.Attrs{"vocab_size": 5}, code: status.InvalidArgument, text: ": expected 5 but got 1"},
		"none wanted":   {content: "a\n", keys: str, values: i64, key: whole, value: line, more: kt.Attrs{"vocab_size": 0}, code: status.OutOfRange, text: "Finished reading 0 of lines from "},
		"empty file":    {keys: str, values: i64, key: whole, value: line, code: status.OutOfRange, text: "Read less bytes than requested"},
		"empty line":    {content: "a\n\nb\n", keys: str, values: i64, key: whole, value: line, code: status.InvalidArgument, text: ": empty line found at position 3."},
		"bad int":       {content: "a,1\nb,1_0\n", keys: str, values: i32, key: 0, value: 1, more: kt.Attrs{"delimiter": ","}, code: status.InvalidArgument, text: "Field 1_0 in line 1 is not a valid int32."},
		"few columns":   {content: "a,1\nb\n", keys: str, values: i64, key: 0, value: 1, more: kt.Attrs{"delimiter": ","}, code: status.InvalidArgument, text: " line 1 (b) : expected at least 2 got 1"},
		"different":     {content: "a\nb\na\n", keys: str, values: i64, key: whole, value: line, code: status.FailedPrecondition, text: "HashTable has different value for same key. Key a has 0 and trying to add value 2"},
		"line as int32": {content: "a\n", keys: str, values: i32, key: whole, value: line, code: status.InvalidArgument, text: "Value index for line number requires table value dtype of int64, got int32"},
		"line as key":   {content: "a\n", keys: i32, values: str, key: line, value: whole, code: status.InvalidArgument, text: "Key index for line number requires table key dtype of int64, got int32"},
		"line as float": {content: "a\n", keys: str, values: f32, key: whole, value: whole, code: status.InvalidArgument, text: "Value index for whole line requires table value dtype of integer or string, got float"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "vocabulary")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			w := newTable(t, kt.NewDevice(t), "HashTable", "V2", kt.Attrs{"key_dtype": c.keys, "value_dtype": c.values})
			w.attrs["key_index"], w.attrs["value_index"] = c.key, c.value
			for k, v := range c.more {
				w.attrs[k] = v
			}
			name := kt.Str(nil, path)
			if c.code != status.OK {
				w.fails(c.code, c.text, "InitializeTableFromTextFile", 0, name)
				kt.Expect(t, w.run("LookupTableSize", 1), kt.I64(nil, 0))
				return
			}
			w.run("InitializeTableFromTextFile", 0, name)
			kt.Expect(t, w.run("LookupTableExport", 2), c.want...)
			// A second run changes nothing, whatever the file holds, but checks its beginning.
			if err := os.WriteFile(path, []byte("9 9 9,9,9\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			delete(w.attrs, "offset")
			if c.keys == str {
				w.run("InitializeTableFromTextFile", 0, kt.Str(nil, path))
			}
			w.fails(status.NotFound, "nofile; No such file or directory", "InitializeTableFromTextFile", 0, kt.Str(nil, path+"nofile"))
		})
	}
}

// TestTextFileLarge reads more lines than fit in one tensor, and one that is longer than a buffer.
func TestTextFileLarge(t *testing.T) {
	var b strings.Builder
	for range 1000 {
		b.WriteString(strings.Repeat("x", b.Len()%1500+1) + "\n")
	}
	b.WriteString(strings.Repeat("y", 200_000) + "\n")
	path := filepath.Join(t.TempDir(), "vocabulary")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newTable(t, kt.NewDevice(t), "HashTable", "V2", kt.Attrs{"key_dtype": tensor.Int64, "value_dtype": tensor.String})
	w.attrs["key_index"], w.attrs["value_index"] = -1, -2
	w.run("InitializeTableFromTextFile", 0, kt.Str(nil, path))
	lines := strings.Split(b.String(), "\n")
	kt.Expect(t, w.run("LookupTableFind", 1, kt.I64(kt.S(4), 0, 999, 1000, 1001), kt.Str(nil, "-")), kt.Str(kt.S(4), lines[0], lines[999], lines[1000], "-"))
}
