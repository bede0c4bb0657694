package data

import (
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// Datasets that return the elements of their input, and fail if the pipeline is not as asserted.

// strings reads a vector of strings.
func (in *inputs) strings(i int, what string) []string {
	t := in.ctx.Input(i)
	if t.DType() != tensor.String || t.Rank() != 1 {
		in.failf("%s must be a vector", what)
		return nil
	}
	return append([]string(nil), t.Strings()...)
}

// newOptimize parses OptimizeDataset and its second version. The rewrites that they name do not change the elements. Troupe's stages
// already are what these rewrites produce, or gain nothing from them.
func newOptimize(*settings) maker {
	return func(in *inputs) kind {
		k := pass{in.dataset(0)}
		for i, what := range [][]string{{"optimizations"}, nil, {"optimizations_enabled", "optimizations_disabled", "optimizations_default"}}[in.ctx.NumInputs()-2] {
			in.strings(1+i, what)
		}
		return k
	}
}

// matchesAnyVersion reports whether name is prefix, or a later version of it, such as BatchDatasetV2 of BatchDataset.
func matchesAnyVersion(prefix, name string) bool {
	version, ok := strings.CutPrefix(name, prefix)
	if !ok || version == "" {
		return ok
	}
	return version[0] == 'V' && strings.Trim(version[1:], "0123456789") == ""
}

// assertNext fails unless the stages that consume its elements are the named ones, the nearest first.
type assertNext struct {
	pass
	want []string
}

func newAssertNext(*settings) maker {
	return func(in *inputs) kind {
		return assertNext{pass{in.dataset(0)}, in.strings(1, "transformations")}
	}
}

func (k assertNext) open(e *Env) (Iterator, error) {
	names := []string{}
	if e.stage != nil {
		names = e.stage.after()
	}
	names = append(names, "Root") // TensorFlow has a stage before the client
	if len(k.want) > len(names) {
		return nil, status.InvalidArgumentf("Asserted next %d transformations but encountered only %d.", len(k.want), len(names))
	}
	for i, want := range k.want {
		if !matchesAnyVersion(want, names[i]) {
			return nil, status.InvalidArgumentf("Asserted transformation matching %s at offset %d but encountered %s transformation instead.", want, i, names[i])
		}
	}
	return k.Dataset.open(e)
}

// assertPrev fails unless the datasets that it is made of match the descriptions, the nearest first. A description is an op and some of its
// attributes.
type assertPrev struct {
	pass
	want []string
}

func newAssertPrev(*settings) maker {
	return func(in *inputs) kind {
		return assertPrev{pass{in.dataset(0)}, in.strings(1, "transformations")}
	}
}

func (k assertPrev) open(e *Env) (Iterator, error) {
	prev := k.Dataset
	for i, want := range k.want {
		if prev == nil {
			return nil, status.InvalidArgumentf("Asserted previous %d transformations but encountered only %d.", len(k.want), i)
		}
		if err := checkTransformation(prev, want); err != nil {
			return nil, status.InvalidArgumentf("Failure checking transformations at offset %d: %v", i, err)
		}
		prev = prev.previous()
	}
	return k.Dataset.open(e)
}

// previous returns the last of the datasets that this one was made of; nil for a source.
func (d *Dataset) previous() *Dataset {
	var last *Dataset
	for _, t := range d.origin.inputs {
		if t.DType() == tensor.Variant && t.Rank() == 0 {
			if p, ok := t.Variants()[0].(*Dataset); ok {
				last = p
			}
		}
	}
	return last
}

func checkTransformation(d *Dataset, text string) error {
	want := &attrpb.NameAttrList{}
	if err := prototext.Unmarshal([]byte(text), want); err != nil {
		return status.InvalidArgumentf("Couldn't parse transformation '%s'.", text)
	}
	if !matchesAnyVersion(want.GetName(), d.Op) {
		return status.InvalidArgumentf("Asserted transformation matching '%s', but found '%s'.", want.GetName(), d.Op)
	}
	for name, v := range want.GetAttr() {
		var found *attrpb.AttrValue
		if d.node != nil {
			found = d.node.Attrs[name]
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
