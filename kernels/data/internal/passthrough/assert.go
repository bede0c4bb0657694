package passthrough

import (
	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// Datasets that return the elements of their input, and fail if the pipeline is not as asserted.

// newOptimize parses OptimizeDataset and its second version. The rewrites that they name do not change the elements. Troupe's stages
// already are what these rewrites produce, or gain nothing from them.
func newOptimize(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		k := pass{in.Dataset(0)}
		for i, what := range [][]string{{"optimizations"}, nil, {"optimizations_enabled", "optimizations_disabled", "optimizations_default"}}[in.Context.NumInputs()-2] {
			in.Strings(1+i, what)
		}
		return k
	}
}

// assertNext fails unless the stages that consume its elements are the named ones, the nearest first.
type assertNext struct {
	pass
	want []string
}

func newAssertNext(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		return assertNext{pass{in.Dataset(0)}, in.Strings(1, "transformations")}
	}
}

func (k assertNext) Open(e *dataset.Env) (dataset.Iterator, error) {
	names := []string{}
	if e.Stage != nil {
		names = e.Stage.After()
	}
	names = append(names, "Root") // TensorFlow has a stage before the client
	if len(k.want) > len(names) {
		return nil, status.InvalidArgumentf("Asserted next %d transformations but encountered only %d.", len(k.want), len(names))
	}
	for i, want := range k.want {
		if !dataset.MatchesAnyVersion(want, names[i]) {
			return nil, status.InvalidArgumentf("Asserted transformation matching %s at offset %d but encountered %s transformation instead.", want, i, names[i])
		}
	}
	return k.Dataset.Open(e)
}

// assertPrev fails unless the datasets that it is made of match the descriptions, the nearest first. A description is an op and some of its
// attributes.
type assertPrev struct {
	pass
	want []string
}

func newAssertPrev(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		return assertPrev{pass{in.Dataset(0)}, in.Strings(1, "transformations")}
	}
}

func (k assertPrev) Open(e *dataset.Env) (dataset.Iterator, error) {
	prev := k.Dataset
	for i, want := range k.want {
		if prev == nil {
			return nil, status.InvalidArgumentf("Asserted previous %d transformations but encountered only %d.", len(k.want), i)
		}
		if err := checkTransformation(prev, want); err != nil {
			return nil, status.InvalidArgumentf("Failure checking transformations at offset %d: %v", i, err)
		}
		prev = prev.Previous()
	}
	return k.Dataset.Open(e)
}

func checkTransformation(d *dataset.Dataset, text string) error {
	want := &attrpb.NameAttrList{}
	if err := prototext.Unmarshal([]byte(text), want); err != nil {
		return status.InvalidArgumentf("Couldn't parse transformation '%s'.", text)
	}
	if !dataset.MatchesAnyVersion(want.GetName(), d.Op) {
		return status.InvalidArgumentf("Asserted transformation matching '%s', but found '%s'.", want.GetName(), d.Op)
	}
	for name, v := range want.GetAttr() {
		var found *attrpb.AttrValue
		if d.Node != nil {
			found = d.Node.Attrs[name]
		}
		switch {
		case found == nil:
			return status.InvalidArgumentf("Asserted attribute '%s' having a value of '%v', but found no such attribute defined.", name, v)
		case !proto.Equal(v, found):
			return status.InvalidArgumentf("Asserted attribute '%s' having a value of '%v', but found value of '%v'.", name, v, found)
		}
	}
	return nil
}
