package passthrough_test

import (
	"testing"

	optionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/dataset_options_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	dt "github.com/troupe-run/troupe/kernels/data/internal/datatest"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// TestOptionsAreMerged reads the merged options of a pipeline's inputs. Later inputs take precedence.
func TestOptionsAreMerged(t *testing.T) {
	d := kt.NewDevice(t)
	options := func(p *dt.Pipe, o *optionspb.Options) *dt.Pipe {
		text, err := proto.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return p.Op("OptionsDataset", kt.Attrs{"serialized_options": string(text)})
	}
	threads := func(n int32) *optionspb.ThreadingOptions_MaxIntraOpParallelism {
		return &optionspb.ThreadingOptions_MaxIntraOpParallelism{MaxIntraOpParallelism: n}
	}
	first := &optionspb.Options{ThreadingOptions: &optionspb.ThreadingOptions{OptionalMaxIntraOpParallelism: threads(3)}, OptionalDeterministic: &optionspb.Options_Deterministic{Deterministic: true}}
	second := &optionspb.Options{ThreadingOptions: &optionspb.ThreadingOptions{
		OptionalMaxIntraOpParallelism: threads(5), OptionalPrivateThreadpoolSize: &optionspb.ThreadingOptions_PrivateThreadpoolSize{PrivateThreadpoolSize: 7},
	}}
	p := options(options(dt.NewPipe(d).Numbers(3), first).Op("SkipDataset", nil, dt.Int(1)), second)
	out := d.Run(t, kt.Op{Type: "GetOptions"}, dt.Retained(p.Now))
	got := &optionspb.Options{}
	if err := proto.Unmarshal([]byte(out[0].Tensor.Strings()[0]), got); err != nil {
		t.Fatal(err)
	}
	want := proto.Clone(first).(*optionspb.Options)
	proto.Merge(want, second)
	if !proto.Equal(got, want) {
		t.Errorf("the options are %v, want %v", got, want)
	}
	out[0].Release()
	kt.Fails(t, d, status.InvalidArgument, "Could not parse serialized_options", kt.Op{Type: "OptionsDataset", Attrs: p.Attrs(kt.Attrs{"serialized_options": "\xff"})}, p.Now)
}

// TestNonSerializable tests a dataset that cannot become a graph, while its iterator can be saved.
func TestNonSerializable(t *testing.T) {
	d := kt.NewDevice(t)
	p := dt.NewPipe(d).Numbers(5).Op("NonSerializableDataset", nil)
	it := p.Iterate(t)
	if got := it.Next() + it.Next(); got != "01" {
		t.Errorf("the first elements are %s", got)
	}
	state := it.Save()
	it.Next()
	if err := it.Restore(state); err != nil {
		t.Fatal(err)
	}
	state.Release()
	if got := it.Rest(9); got != "2 3 4 end" {
		t.Errorf("the rest is %s", got)
	}
	it.Close()
	for _, op := range []string{"DatasetToGraph", "DatasetToGraphV2"} {
		kt.Fails(t, d, status.FailedPrecondition, "NonSerializableDatasetOp::Dataset does not support serialization.", kt.Op{Type: op, Attrs: kt.Attrs{"external_state_policy": int64(0)}}, dt.Retained(p.Now))
	}
	p.Now.Release()
}
