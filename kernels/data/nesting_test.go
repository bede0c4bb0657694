package data_test

import (
	"fmt"
	"testing"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// A dataset that is repeatedly concatenated with itself has an enormous number of elements, but each query visits each of its datasets
// once.
func TestDatasetsOfThemselves(t *testing.T) {
	d := kt.NewDevice(t)
	for _, op := range []string{"ConcatenateDataset", "ZipDataset"} {
		p := newPipe(d).numbers(1).batch(1, false)
		for range 60 {
			twice := p.now
			if op == "ZipDataset" {
				p.op(op, kt.Attrs{"N": 2, "output_types": []tensor.DType{tensor.Int64}, "output_shapes": []tensor.Shape{{-1}}}, retained(twice))
			} else {
				p.op(op, nil, retained(twice))
			}
		}
		if p.err != nil {
			t.Fatal(p.err)
		}
		for _, ask := range []string{"DatasetCardinality", "DatasetFingerprint"} {
			out := d.Run(t, kt.Op{Type: ask}, retained(p.now))
			out[0].Release()
		}
		for _, policy := range []int64{0, 1, 2} { // by what is possible, by files, by elements
			sharded, err := d.Try(kt.Op{Type: "AutoShardDataset", Attrs: p.attrs(kt.Attrs{"auto_shard_policy": policy})}, retained(p.now), i(2), i(0))
			if policy == 1 && status.CodeOf(err) != status.NotFound {
				t.Errorf("%s sharded by files: %v", op, err)
			}
			for _, v := range sharded {
				v.Release()
			}
		}
		p.now.Release()
	}
}

// Datasets may be elements of others, like lists in lists, up to a limit. The last release of the outermost one releases all.
func TestDatasetsInElements(t *testing.T) {
	d := kt.NewDevice(t)
	p := newPipe(d).numbers(1)
	for n := range 1000 {
		out, err := d.Try(kt.Op{Type: "TensorDataset", Attrs: kt.Attrs{"Toutput_types": []tensor.DType{tensor.Variant}, "output_shapes": []tensor.Shape{{}}}}, p.now)
		if err != nil {
			if status.CodeOf(err) != status.ResourceExhausted || n < 50 {
				t.Errorf("after %d: %v", n, err)
			}
			return
		}
		p.now = kernels.Value{Tensor: out[0].Tensor}
	}
	p.now.Release()
	t.Error("a thousand datasets may lie in one another")
}

// A dataset that is repeatedly zipped with itself would open 2^60 iterators. Its step fails, and releases its memory.
func TestIteratorsAtATime(t *testing.T) {
	d := kt.NewDevice(t)
	p := newPipe(d).numbers(3)
	for range 60 {
		p.op("ZipDataset", kt.Attrs{"N": 2, "output_types": []tensor.DType{tensor.Int64}, "output_shapes": []tensor.Shape{{}}}, retained(p.now))
	}
	if _, err := d.Try(kt.Op{Type: "DatasetToSingleElement", Attrs: p.attrs(nil), Functions: functions}, p.now); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("2^60 iterators: %v", err)
	}
}

// The functions of a pipeline are nested in the function that iterates over it: a recursion that passes through
// pipelines must end, too.
func TestFunctionsOfPipelinesAreNested(t *testing.T) {
	d := kt.NewDevice(t)
	p := newPipe(d).numbers(1).mapped("depth")
	step := kt.NewStep()
	step.Depth = 7
	out, err := d.Try(kt.Op{Type: "DatasetToSingleElement", Attrs: p.attrs(nil), Functions: functions, Step: step}, p.now)
	if got := told(out, err); got != "8" {
		t.Errorf("a function that is called at depth 7 runs at depth %s", got)
	}
}

// The nodes of a dataset's graph may depend on one another in a chain, up to a limit, since reading each takes stack.
func TestGraphsOfLongChains(t *testing.T) {
	d := kt.NewDevice(t)
	attrs := kt.Attrs{"external_state_policy": int64(0), "strip_device_assignment": false}
	out := d.Run(t, kt.Op{Type: "DatasetToGraphV2", Attrs: attrs}, newPipe(d).numbers(3).value())
	saved := out[0].Tensor.Strings()[0]
	out[0].Release()
	for _, c := range []struct {
		identities int
		code       status.Code
	}{{900, status.OK}, {1100, status.ResourceExhausted}} {
		def := &graphpb.GraphDef{}
		if err := proto.Unmarshal([]byte(saved), def); err != nil {
			t.Fatal(err)
		}
		result := def.Node[len(def.Node)-1] // the dataset is its input
		for k := range c.identities {
			identity := &nodepb.NodeDef{Name: fmt.Sprint("identity", k), Op: "Identity", Input: []string{result.Input[0]},
				Attr: kt.Attrs{"T": tensor.Variant}.Proto()}
			def.Node = append(def.Node, identity)
			result.Input[0] = identity.Name
		}
		text, err := proto.Marshal(def)
		if err != nil {
			t.Fatal(err)
		}
		out, err := d.Try(kt.Op{Type: "DatasetFromGraph", Functions: functions}, kt.Str(nil, string(text)))
		if status.CodeOf(err) != c.code {
			t.Errorf("a chain of %d: %v, want %v", c.identities, err, c.code)
		}
		for _, v := range out {
			v.Release()
		}
	}
}
