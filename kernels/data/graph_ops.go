package data

import (
	optionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/dataset_options_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// newToGraph returns the kernel whose output is the serialized graph of a dataset.
func newToGraph(c *kernels.Construction) (any, error) {
	s := SettingsOf(c)
	declared := false
	if s.Has("external_state_policy") {
		declared = s.Int("external_state_policy") == externalFails
	} else {
		declared = !s.Bool("allow_stateful")
	}
	return WithPlace(func(ctx *kernels.Context, p Place) error {
		d, err := FromTensor(p, ctx.Input(0))
		if err != nil {
			return err
		}
		defer d.Release()
		fails := declared
		if o := MergedOptions(d, map[*Dataset]*optionspb.Options{}); o.GetOptionalExternalStatePolicy() != nil {
			fails = o.GetExternalStatePolicy() == optionspb.ExternalStatePolicy_POLICY_FAIL
		}
		if fails {
			err = d.External()
		}
		var def *graphpb.GraphDef
		if err == nil {
			def, err = ToGraph(d, ctx)
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
func fromGraph(ctx *kernels.Context, p Place) error {
	in := &Inputs{Context: ctx}
	text := in.Str(0, "graph_def")
	if in.Err != nil {
		return in.Err
	}
	def := &graphpb.GraphDef{}
	if err := tensor.Unmarshal([]byte(text), def); err != nil {
		return status.InvalidArgumentf("Could not parse GraphDef")
	}
	d, err := FromGraph(p, def)
	if err != nil {
		return err
	}
	ctx.SetOutput(0, ToTensor(d))
	return nil
}

// sameDataset implements ops that wrap a dataset to keep TensorFlow from copying it between devices, and ops that unwrap it. Here, nothing
// copies it.
func sameDataset(ctx *kernels.Context) error {
	if _, err := InTensor(ctx.Input(0)); err != nil {
		return err
	}
	ctx.SetOutput(0, ctx.Input(0).Retain())
	return nil
}
