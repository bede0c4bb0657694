package all_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestElementsOfCancelledSteps checks that ops that compute element by element stop when their step is cancelled, since some need
// microseconds for each of millions of elements.
func TestElementsOfCancelledSteps(t *testing.T) {
	t.Parallel()
	kt.CPUOnly(t) // the CPU's kernels check for the step's end themselves
	const n = 3 << 15
	tried := map[string]bool{}
	for _, g := range goldens(t) {
		var types strings.Builder
		for _, in := range g.inputs {
			types.WriteString(in.DType().String() + " ")
		}
		key := g.node.Op + " of " + types.String()
		if g.code != status.OK || tried[key] {
			continue
		}
		step := kt.NewStep()
		k, err := kt.NewDevice(t).Kernel(kt.Op{Type: g.node.Op, Raw: graph.Attrs(g.node.Attr), Step: step}, anys(g.inputs)...)
		if err != nil {
			continue // an op on variables
		}
		switch k.Impl().(type) {
		case *elementwise.UnaryKernel, *elementwise.BinaryKernel:
		default:
			continue
		}
		tried[key] = true
		step.Cancellation.Cancel(status.New(status.Cancelled, "enough"))
		inputs := make([]*tensor.Tensor, len(g.inputs))
		for i, in := range g.inputs {
			v, err := tensor.Zeros(tensor.Host, in.DType(), tensor.Shape{n})
			if err != nil {
				t.Fatal(err)
			}
			for at := 0; at < n && in.Len() > 0; at += in.Len() {
				v.CopyElements(at, in, 0, min(in.Len(), n-at))
			}
			inputs[i] = v
		}
		out, err := k.Try(kt.Values(anys(inputs)...)...)
		for _, v := range out {
			v.Release()
		}
		if !errors.Is(err, step.Cancellation.Err()) {
			t.Errorf("%s computed all elements: %v", key, err)
		}
	}
	if len(tried) < 500 {
		t.Errorf("only %d ops and types were tried", len(tried))
	}
}

// TestSamplersAreExpensive checks that samplers are marked expensive. A sampler's run time depends on its attributes, not its inputs, so
// nothing else shows that it may take long; otherwise its step would not observe its deadline.
func TestSamplersAreExpensive(t *testing.T) {
	t.Parallel()
	kt.CPUOnly(t)
	tried := map[string]bool{}
	for _, g := range goldens(t) {
		if _, ok := g.node.Attr["unique"]; !ok || g.node.Op == "AllCandidateSampler" || tried[g.node.Op] {
			continue
		}
		k, err := kt.NewDevice(t).Kernel(kt.Op{Type: g.node.Op, Raw: graph.Attrs(g.node.Attr)}, anys(g.inputs)...)
		if err != nil {
			continue
		}
		tried[g.node.Op] = true
		if def, err := kernels.Find(k.Node, "CPU"); err != nil || !def.Expensive {
			t.Errorf("%s is not expensive: %v", g.node.Op, err)
		}
	}
	if len(tried) < 5 {
		t.Errorf("only %v were tried", tried)
	}
}

func anys(list []*tensor.Tensor) []any {
	all := make([]any, len(list))
	for i, v := range list {
		all[i] = v
	}
	return all
}
