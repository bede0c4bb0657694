package iterator

import (
	optionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/dataset_options_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/data/internal/passthrough"
	"google.golang.org/protobuf/proto"
)

// newToGraph returns the kernel whose output is the serialized graph of a dataset.
func newToGraph(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	declared := false
	if s.Has("external_state_policy") {
		declared = s.Int("external_state_policy") == externalFails
	} else {
		declared = !s.Bool("allow_stateful")
	}
	return dataset.WithPlace(func(ctx *kernels.Context, p dataset.Place) error {
		d, err := dataset.FromTensor(p, ctx.Input(0))
		if err != nil {
			return err
		}
		defer d.Release()
		fails := declared
		if o := passthrough.MergedOptions(d, map[*dataset.Dataset]*optionspb.Options{}); o.GetOptionalExternalStatePolicy() != nil {
			fails = o.GetExternalStatePolicy() == optionspb.ExternalStatePolicy_POLICY_FAIL
		}
		if fails {
			err = d.External()
		}
		var def *graphpb.GraphDef
		if err == nil {
			def, err = dataset.ToGraph(d, ctx)
		}
		if err != nil {
			return status.Errorf(status.FailedPrecondition, "Failed to serialize the input pipeline graph: %v", err)
		}
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(def)
		if err == nil {
			ctx.SetOutput(0, tensor.FromScalar(string(b)))
		}
		return err
	})(c)
}

// fromGraph creates a dataset from a serialized graph.
func fromGraph(ctx *kernels.Context, p dataset.Place) error {
	in := &dataset.Inputs{Context: ctx}
	text := in.Str(0, "graph_def")
	if in.Err != nil {
		return in.Err
	}
	def := &graphpb.GraphDef{}
	if err := tensor.Unmarshal([]byte(text), def); err != nil {
		return status.InvalidArgumentf("Could not parse GraphDef")
	}
	d, err := dataset.FromGraph(p, def)
	if err != nil {
		return err
	}
	ctx.SetOutput(0, dataset.ToTensor(d))
	return nil
}

// sameDataset implements ops that wrap a dataset to keep TensorFlow from copying it between devices, and ops that unwrap it. Here, nothing
// copies it.
func sameDataset(ctx *kernels.Context) error {
	if _, err := dataset.InTensor(ctx.Input(0)); err != nil {
		return err
	}
	ctx.SetOutput(0, ctx.Input(0).Retain())
	return nil
}
