package dataset_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// captures are the resources that the test's datasets capture, each with a function that changes it.
var captures = map[string]struct {
	function string
	make     func(t *testing.T, d *kt.Device) kernels.Value
	change   func(t *testing.T, d *kt.Device, handle kernels.Value)
	want     string // of the numbers below 3, before the change
}{
	"variable": {"plus", func(t *testing.T, d *kt.Device) kernels.Value {
		h := d.Run(t, kt.Op{Type: "VarHandleOp", Attrs: kt.Attrs{"dtype": tensor.Int64, "shape": tensor.Shape{}, "container": "", "shared_name": "v"}})[0]
		assigned(t, d, h, 10)
		return h
	}, func(t *testing.T, d *kt.Device, h kernels.Value) { assigned(t, d, h, 20) }, "10 11 12 end"},
	"anonymous variable": {"plus", func(t *testing.T, d *kt.Device) kernels.Value {
		h := d.Run(t, kt.Op{Type: "VarHandleOp", Attrs: kt.Attrs{"dtype": tensor.Int64, "shape": tensor.Shape{}, "container": "", "shared_name": "cd2c89b7-88b7-44c8-ad83-06c2a9158347"}})[0]
		assigned(t, d, h, 10)
		return h
	}, func(t *testing.T, d *kt.Device, h kernels.Value) { assigned(t, d, h, 20) }, "10 11 12 end"},
	"static table":                       {"found", tableOf("HashTableV2", nil, "InitializeTableV2", nil), nil, "5 6 -1 end"},
	"anonymous static table":             {"found", tableOf("AnonymousHashTable", nil, "InitializeTableV2", nil), nil, "5 6 -1 end"},
	"table that nothing has initialized": {"found", tableOf("HashTableV2", nil, "", nil), nil, "FAILED_PRECONDITION FAILED_PRECONDITION FAILED_PRECONDITION end"},
	"mutable table": {"found", tableOf("MutableHashTableV2", nil, "LookupTableInsertV2", nil), func(t *testing.T, d *kt.Device, h kernels.Value) {
		entries(t, d, h, "LookupTableInsertV2", 8, 9)
	}, "5 6 -1 end"},
	"empty mutable table": {"found", tableOf("MutableHashTableV2", nil, "", nil), func(t *testing.T, d *kt.Device, h kernels.Value) {
		entries(t, d, h, "LookupTableInsertV2", 8, 9)
	}, "-1 -1 -1 end"},
	"dense table": {"found", tableOf("MutableDenseHashTableV2", kt.Attrs{"value_shape": tensor.Shape{}, "max_load_factor": float32(0.8), "initial_num_buckets": int64(4)}, "LookupTableInsertV2",
		func() []any { return []any{dt.Int(-5), dt.Int(-6)} }), func(t *testing.T, d *kt.Device, h kernels.Value) {
		entries(t, d, h, "LookupTableInsertV2", 8, 9)
	}, "5 6 -1 end"},
}

func assigned(t *testing.T, d *kt.Device, h kernels.Value, v int64) {
	t.Helper()
	d.Run(t, kt.Op{Type: "AssignVariableOp", Attrs: kt.Attrs{"dtype": tensor.Int64, "validate_shape": false}}, dt.Retained(h), dt.Int(v))
}

func entries(t *testing.T, d *kt.Device, h kernels.Value, op string, values ...int64) {
	t.Helper()
	keys := make([]int64, len(values))
	for k := range keys {
		keys[k] = int64(k)
	}
	n := kt.S(int64(len(values)))
	d.Run(t, kt.Op{Type: op, Attrs: kt.Attrs{"Tkey": tensor.Int64, "Tval": tensor.Int64, "Tin": tensor.Int64, "Tout": tensor.Int64}}, dt.Retained(h), kt.I64(n, keys...), kt.I64(n, values...))
}

// tableOf creates a table that maps 0 to 5 and 1 to 6, filled by the op fill. If fill is empty, so is the table.
func tableOf(op string, more kt.Attrs, fill string, inputs func() []any) func(t *testing.T, d *kt.Device) kernels.Value {
	return func(t *testing.T, d *kt.Device) kernels.Value {
		attrs := kt.Attrs{"key_dtype": tensor.Int64, "value_dtype": tensor.Int64}
		if op != "AnonymousHashTable" {
			attrs["container"], attrs["shared_name"], attrs["use_node_name_sharing"] = "", "t", false
		}
		for name, v := range more {
			attrs[name] = v
		}
		var in []any
		if inputs != nil {
			in = inputs()
		}
		h := d.Run(t, kt.Op{Type: op, Attrs: attrs, Outputs: 1}, in...)[0]
		if fill != "" {
			entries(t, d, h, fill, 5, 6)
		}
		return h
	}
}

// capturing returns the attributes of a map whose function captures a resource.
func capturing(name string) kt.Attrs {
	return kt.Attrs{"f": kt.Func{Name: name}, "Targuments": []tensor.DType{tensor.Resource}}
}

// toGraph serializes a dataset.
func toGraph(p *dt.Pipe) ([]kernels.Value, error) {
	return p.Device.Try(kt.Op{Type: "DatasetToGraphV2", Attrs: kt.Attrs{"external_state_policy": int64(0), "strip_device_assignment": false}, Functions: dt.Functions}, dt.Retained(p.Now))
}

// TestGraphsHoldResources checks that the graph of a dataset that captures a resource creates the same elements twice, whatever happens to
// the resource afterwards.
func TestGraphsHoldResources(t *testing.T) {
	for name, c := range captures {
		t.Run(name, func(t *testing.T) {
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			handle := c.make(t, d)
			p := dt.NewPipe(d).Numbers(3).Op("MapDataset", capturing(c.function), dt.Retained(handle))
			out, err := toGraph(p)
			if err != nil {
				t.Fatal(err)
			}
			before := fingerprintOf(t, p)
			if again := fingerprintOf(t, p); again != before {
				t.Errorf("the fingerprint was %d, and then %d", before, again)
			}
			if c.change != nil {
				c.change(t, d, handle)
				if fingerprintOf(t, p) == before {
					t.Error("the fingerprint is the same after the resource has changed")
				}
			}
			d.Run(t, kt.Op{Type: "DestroyResourceOp", Attrs: kt.Attrs{"ignore_lookup_error": false}}, handle)
			p.Now.Release()
			for range 2 {
				back := dt.NewPipe(d).Op("DatasetFromGraph", nil, kt.Str(nil, out[0].Tensor.Strings()[0]))
				it := back.Iterate(t)
				if got := it.Rest(4); got != c.want {
					t.Errorf("the elements are %s, want %s", got, c.want)
				}
				it.Close()
				back.Now.Release()
			}
			out[0].Release()
			collect(t, d)
		})
	}
}

func fingerprintOf(t *testing.T, p *dt.Pipe) uint64 {
	t.Helper()
	out := p.Device.Run(t, kt.Op{Type: "DatasetFingerprint", Functions: dt.Functions}, dt.Retained(p.Now))
	defer out[0].Release()
	return tensor.Of[uint64](out[0].Tensor)[0]
}

// collect waits until the garbage collector has closed resources that only handles refer to.
func collect(t *testing.T, d *kt.Device) {
	t.Helper()
	for range 10_000 {
		if d.Resources().Empty() == nil && d.Pool().Stats().InUse == 0 {
			return
		}
		runtime.GC()
		runtime.Gosched()
	}
	t.Errorf("%d bytes are still in use", d.Pool().Stats().InUse)
}

// TestGraphsShareResources captures a table in two stages, and checks that the graph has it once.
func TestGraphsShareResources(t *testing.T) {
	d := kt.NewDevice(t)
	dt.FunctionDevice = d
	handle := captures["variable"].make(t, d)
	p := dt.NewPipe(d).Numbers(3).Op("MapDataset", capturing("plus"), dt.Retained(handle)).Op("MapDataset", capturing("plus"), dt.Retained(handle))
	out, err := toGraph(p)
	if err != nil {
		t.Fatal(err)
	}
	if n := countOf(t, out[0].Tensor.Strings()[0], "VarHandleOp"); n != 1 {
		t.Errorf("the graph has the variable %d times", n)
	}
	out[0].Release()
	p.Now.Release()
	handle.Release()
}

// TestGraphsOfAbsentResources checks that unreadable resources are rejected.
func TestGraphsOfAbsentResources(t *testing.T) {
	d := kt.NewDevice(t)
	dt.FunctionDevice = d
	handle := d.Run(t, kt.Op{Type: "VarHandleOp", Attrs: kt.Attrs{"dtype": tensor.Int64, "shape": tensor.Shape{}, "container": "", "shared_name": "never"}})[0]
	p := dt.NewPipe(d).Numbers(3).Op("MapDataset", capturing("plus"), handle)
	if _, err := toGraph(p); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("a variable without a value gives %v", err)
	}
	p.Now.Release()
}

// TestGraphsFillTables reads graphs as TensorFlow makes them: a named table, and the op that filled it, which may read a file or a dataset.
func TestGraphsFillTables(t *testing.T) {
	words := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(words, []byte("0 5\n1 6\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for op, fill := range map[string]func(importer *nodepb.NodeDef) []*nodepb.NodeDef{
		"LookupTableImportV2": func(*nodepb.NodeDef) []*nodepb.NodeDef { return nil },
		"InitializeTableV2": func(n *nodepb.NodeDef) []*nodepb.NodeDef {
			n.Attr["Tkey"], n.Attr["Tval"] = n.Attr["Tin"], n.Attr["Tout"]
			return nil
		},
		"InitializeTableFromTextFileV2": func(n *nodepb.NodeDef) []*nodepb.NodeDef {
			n.Input[1], n.Input = "file", n.Input[:2]
			n.Attr = kt.Attrs{"key_index": 0, "value_index": 1, "vocab_size": -1, "delimiter": " ", "offset": 0}.Proto()
			return []*nodepb.NodeDef{{Name: "file", Op: "Const", Attr: kt.Attrs{"dtype": tensor.String, "value": kt.Str(nil, words)}.Proto()}}
		},
		"InitializeTableFromDataset": func(n *nodepb.NodeDef) []*nodepb.NodeDef {
			pairs := &nodepb.NodeDef{Name: "pairs", Op: "TensorSliceDataset", Input: n.Input[1:], Attr: kt.Attrs{
				"Toutput_types": []tensor.DType{tensor.Int64, tensor.Int64}, "output_shapes": []tensor.Shape{{}, {}},
			}.Proto()}
			n.Input, n.Attr = []string{n.Input[0], "pairs"}, nil
			return []*nodepb.NodeDef{pairs}
		},
	} {
		t.Run(op, func(t *testing.T) {
			d := kt.NewDevice(t)
			dt.FunctionDevice = d
			handle := captures["static table"].make(t, d)
			p := dt.NewPipe(d).Numbers(3).Op("MapDataset", capturing("found"), handle)
			out, err := toGraph(p)
			if err != nil {
				t.Fatal(err)
			}
			p.Now.Release()
			def := &graphpb.GraphDef{}
			if err := proto.Unmarshal([]byte(out[0].Tensor.Strings()[0]), def); err != nil {
				t.Fatal(err)
			}
			out[0].Release()
			for _, n := range def.Node {
				switch n.Op {
				case "AnonymousHashTable":
					n.Op = "HashTableV2"
				case "LookupTableImportV2":
					n.Op = op
					def.Node = append(def.Node, fill(n)...)
				}
			}
			text, err := proto.Marshal(def)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				back := dt.NewPipe(d).Op("DatasetFromGraph", nil, kt.Str(nil, string(text)))
				it := back.Iterate(t)
				if got := it.Rest(4); got != "5 6 -1 end" {
					t.Errorf("the elements are %s", got)
				}
				it.Close()
				back.Now.Release()
			}
			collect(t, d)
		})
	}
}

// countOf returns how many nodes of an op a serialized graph has.
func countOf(t *testing.T, text, op string) (n int) {
	t.Helper()
	def := &graphpb.GraphDef{}
	if err := proto.Unmarshal([]byte(text), def); err != nil {
		t.Fatal(err)
	}
	for _, node := range def.Node {
		if node.Op == op {
			n++
		}
	}
	return n
}
