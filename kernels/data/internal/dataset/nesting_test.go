package dataset_test

import (
	"fmt"
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

// A dataset that is repeatedly concatenated with itself has an enormous number of elements, but each query visits each of its datasets
// once.
func TestDatasetsOfThemselves(t *testing.T) {
	d := kt.NewDevice(t)
	for _, op := range []string{"ConcatenateDataset", "ZipDataset"} {
		p := dt.NewPipe(d).Numbers(1).Batch(1, false)
		for range 60 {
			twice := p.Now
			if op == "ZipDataset" {
				p.Op(op, kt.Attrs{"N": 2, "output_types": []tensor.DType{tensor.Int64}, "output_shapes": []tensor.Shape{{-1}}}, dt.Retained(twice))
			} else {
				p.Op(op, nil, dt.Retained(twice))
			}
		}
		if p.Err != nil {
			t.Fatal(p.Err)
		}
		toGraph := kt.Attrs{"external_state_policy": int64(0), "strip_device_assignment": false}
		for ask, attrs := range map[string]kt.Attrs{"DatasetCardinality": nil, "DatasetFingerprint": nil, "ComputeBatchSize": nil, "GetOptions": nil, "DatasetToGraphV2": toGraph} {
			out := d.Run(t, kt.Op{Type: ask, Attrs: attrs}, dt.Retained(p.Now))
			out[0].Release()
		}
		// An element of the zipped one has 2^60 components. TensorFlow fails, too.
		out, err := d.Try(kt.Op{Type: "GetElementAtIndex", Attrs: p.Attrs(nil), Functions: dt.Functions}, dt.Retained(p.Now), dt.Int(0))
		if (err == nil) != (op == "ConcatenateDataset") {
			t.Errorf("the first element of a %s of itself: %v", op, err)
		}
		for _, v := range out {
			v.Release()
		}
		for _, policy := range []int64{0, 1, 2} { // by what is possible, by files, by elements
			sharded, err := d.Try(kt.Op{Type: "AutoShardDataset", Attrs: p.Attrs(kt.Attrs{"auto_shard_policy": policy})}, dt.Retained(p.Now), dt.Int(2), dt.Int(0))
			if policy == 1 && status.CodeOf(err) != status.NotFound {
				t.Errorf("%s sharded by files: %v", op, err)
			}
			for _, v := range sharded {
				v.Release()
			}
		}
		p.Now.Release()
	}
}

// Datasets may be elements of others, like lists in lists, up to a limit. The last release of the outermost one releases all.
func TestDatasetsInElements(t *testing.T) {
	d := kt.NewDevice(t)
	p := dt.NewPipe(d).Numbers(1)
	for n := range 1000 {
		out, err := d.Try(kt.Op{Type: "TensorDataset", Attrs: kt.Attrs{"Toutput_types": []tensor.DType{tensor.Variant}, "output_shapes": []tensor.Shape{{}}}}, p.Now)
		if err != nil {
			if status.CodeOf(err) != status.ResourceExhausted || n < 50 {
				t.Errorf("after %d: %v", n, err)
			}
			return
		}
		p.Now = kernels.Value{Tensor: out[0].Tensor}
	}
	p.Now.Release()
	t.Error("a thousand datasets may lie in one another")
}

// A dataset that is repeatedly zipped with itself would open 2^60 iterators. Its step fails, and releases its memory.
func TestIteratorsAtATime(t *testing.T) {
	d := kt.NewDevice(t)
	p := dt.NewPipe(d).Numbers(3)
	for range 60 {
		p.Op("ZipDataset", kt.Attrs{"N": 2, "output_types": []tensor.DType{tensor.Int64}, "output_shapes": []tensor.Shape{{}}}, dt.Retained(p.Now))
	}
	if _, err := d.Try(kt.Op{Type: "DatasetToSingleElement", Attrs: p.Attrs(nil), Functions: dt.Functions}, p.Now); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("2^60 iterators: %v", err)
	}
}

// The functions of a pipeline are nested in the function that iterates over it: a recursion that passes through
// pipelines must end, too.
func TestFunctionsOfPipelinesAreNested(t *testing.T) {
	d := kt.NewDevice(t)
	p := dt.NewPipe(d).Numbers(1).Mapped("depth")
	step := kt.NewStep()
	step.Depth = 7
	out, err := d.Try(kt.Op{Type: "DatasetToSingleElement", Attrs: p.Attrs(nil), Functions: dt.Functions, Step: step}, p.Now)
	if got := dt.Outcome(out, err); got != "8" {
		t.Errorf("a function that is called at depth 7 runs at depth %s", got)
	}
}

// The nodes of a dataset's graph may depend on one another in a chain, up to a limit, since reading each takes stack.
func TestGraphsOfLongChains(t *testing.T) {
	d := kt.NewDevice(t)
	attrs := kt.Attrs{"external_state_policy": int64(0), "strip_device_assignment": false}
	out := d.Run(t, kt.Op{Type: "DatasetToGraphV2", Attrs: attrs}, dt.NewPipe(d).Numbers(3).Value())
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
		out, err := d.Try(kt.Op{Type: "DatasetFromGraph", Functions: dt.Functions}, kt.Str(nil, string(text)))
		if status.CodeOf(err) != c.code {
			t.Errorf("a chain of %d: %v, want %v", c.identities, err, c.code)
		}
		for _, v := range out {
			v.Release()
		}
	}
}
