package all_test

import (
	"fmt"
	"hash/crc32"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

const (
	// manyPieces is the enlarged size of a dimension, a prime; manyElements is the maximum size of an enlarged tensor.
	manyPieces, manyElements = 1<<20 + 7, 1 << 21
	// manyEdges is the number of inputs or outputs of an enlarged node.
	manyEdges = 1 << 17
	// begunFor is the time for which a kernel computes before its step ends, and mostLate the time in which it must then end.
	begunFor, mostLate = 40 * time.Millisecond, 100 * time.Millisecond
)

// TestKernelsEndWithTheirSteps checks that a kernel ends soon after its step, whatever its work consists of. Each op of the goldens gets
// inputs from its records with one size enlarged, alone or with another size set to 0: many rows, batches, pieces and elements of size 0.
// If the record's inputs are sizes themselves, they become large. Ops with any number of inputs or outputs get many.
func TestKernelsEndWithTheirSteps(t *testing.T) {
	kt.CPUOnly(t) // the CPU's kernels check for the step's end themselves
	all := extent.Check() && !extent.RaceDetector
	seen := map[string]int{}
	shapes := 0
	for _, g := range goldens(t) {
		if g.code != status.OK || strings.Contains(g.node.Op, "Apply") {
			continue
		}
		key := g.form()
		if seen[key] > 0 || !all && seen[g.node.Op] > 0 {
			continue
		}
		seen[key]++
		if seen[g.node.Op]++; !all && crc32.ChecksumIEEE([]byte(g.node.Op))%4 != 0 {
			continue // make check tries all ops
		}
		t.Run(g.node.Op, func(t *testing.T) {
			for large := range enlarged(g.inputs) {
				shapes++
				if late, limit := lateness(t, g.node.Op, g.node.Attr, large); late > limit {
					t.Errorf("%s of %s goes on for %v after its step has ended\n%v", g.node.Op, shapesOf(large), late, g.node.Attr)
				}
				kernels.ReleaseTensors(large)
			}
			for attrs, large := range withManyEdges(t, g) {
				shapes++
				if late, limit := lateness(t, g.node.Op, attrs, large); late > limit {
					t.Errorf("%s with many inputs or outputs, the first of %v, goes on for %v after its step has ended", g.node.Op, large[0].Shape(), late)
				}
				kernels.ReleaseTensors(large)
			}
		})
	}
	if least := 3 * len(seen); len(seen) < 700 || shapes < least && (all || shapes < least/5) {
		t.Errorf("only %d ops with %d shapes were tried", len(seen), shapes)
	}
}

// withManyEdges yields the record's node with many outputs, if it may have them, and an input with a dimension of the same size; then with
// many inputs.
func withManyEdges(t *testing.T, g golden) iter.Seq2[graph.Attrs, []*tensor.Tensor] {
	t.Helper()
	def, err := graph.LookupOp(g.node.Op)
	if err != nil {
		t.Fatal(err)
	}
	with := func(name string) graph.Attrs {
		attrs := maps.Clone(graph.Attrs(g.node.Attr))
		attrs[name] = &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: manyEdges}}
		return attrs
	}
	return func(yield func(graph.Attrs, []*tensor.Tensor) bool) {
		for _, out := range def.OutputArg {
			if out.NumberAttr == "" || slices.ContainsFunc(def.InputArg, func(in *oppb.OpDef_ArgDef) bool { return in.NumberAttr == out.NumberAttr }) {
				continue
			}
			for i, in := range g.inputs {
				for axis := range in.Rank() {
					list := slices.Clone(g.inputs)
					for j, other := range list {
						shape := other.Shape().Clone()
						if j == i {
							shape[axis] = manyEdges
						}
						list[j] = resized(other, shape)
					}
					if !yield(with(out.NumberAttr), list) {
						return
					}
				}
			}
		}
		for _, many := range def.InputArg {
			if many.NumberAttr == "" || g.node.Attr[many.NumberAttr].GetI() == 0 {
				continue
			}
			var list []*tensor.Tensor
			at := 0
			for _, arg := range def.InputArg {
				n := 1
				switch {
				case arg.NumberAttr != "":
					n = int(g.node.Attr[arg.NumberAttr].GetI())
				case arg.TypeListAttr != "":
					n = len(g.node.Attr[arg.TypeListAttr].GetList().GetType())
				}
				inputs := g.inputs[at : at+n]
				if at += n; arg.NumberAttr == many.NumberAttr {
					inputs = slices.Repeat(inputs[:1], manyEdges)
				}
				list = append(list, inputs...)
			}
			for _, in := range list {
				in.Retain()
			}
			if !yield(with(many.NumberAttr), list) {
				return
			}
		}
	}
}

// lateness returns how long a kernel runs after its step has ended, or 0 if it ends before, and the limit, which depends on how busy the machine
// is. A kernel that is too late has further tries, since a busy machine causes random delays.
func lateness(t *testing.T, op string, attrs graph.Attrs, inputs []*tensor.Tensor) (late, limit time.Duration) {
	t.Helper()
	for range 5 {
		late, limit = latenessOnce(t, op, attrs, inputs), extent.Slack(mostLate)
		if late <= limit {
			break
		}
	}
	return late, limit
}

func latenessOnce(t *testing.T, op string, attrs graph.Attrs, inputs []*tensor.Tensor) time.Duration {
	t.Helper()
	step := kt.NewStep()
	values, closeAll := withVariables(t, op, inputs)
	defer closeAll()
	k, err := kt.NewDevice(t).Kernel(kt.Op{Type: op, Raw: attrs, Step: step, Functions: echo}, values...)
	if err != nil {
		return 0
	}
	for _, v := range values {
		if in, ok := v.(*tensor.Tensor); ok {
			in.Retain()
		}
	}
	ended := make(chan time.Time, 1)
	go k.Start(kt.Values(values...), func(out []kernels.Value, err error) {
		at := time.Now()
		for _, v := range out {
			v.Release()
		}
		ended <- at
	})
	select {
	case <-ended:
		return 0
	case <-time.After(begunFor):
	}
	cancelled := time.Now()
	step.Cancellation.Cancel(status.New(status.Cancelled, "enough"))
	return (<-ended).Sub(cancelled)
}

// withVariables returns the inputs of an op, with a variable for each that the op updates, and a function that closes the variables.
func withVariables(t *testing.T, op string, inputs []*tensor.Tensor) (values []any, closeAll func()) {
	t.Helper()
	values = anys(inputs)
	def, err := graph.LookupOp(op)
	if err != nil {
		t.Fatal(err)
	}
	var made []*containers.Variable
	for i, arg := range def.InputArg {
		if arg.IsRef {
			v := containers.NewVariable("v", inputs[i].DType())
			v.Assign(inputs[i].Retain())
			values[i], made = v, append(made, v)
		}
	}
	return values, func() {
		for _, v := range made {
			v.Close()
		}
	}
}

// enlarged yields inputs like those of a record, but with other sizes, one set after the other.
func enlarged(inputs []*tensor.Tensor) iter.Seq[[]*tensor.Tensor] {
	return func(yield func([]*tensor.Tensor) bool) { enlarge(inputs, yield) }
}

func enlarge(inputs []*tensor.Tensor, yield func([]*tensor.Tensor) bool) {
	going := true
	var sizes []int64
	for _, in := range inputs {
		for _, d := range in.Shape() {
			if !slices.Contains(sizes, d) {
				sizes = append(sizes, d)
			}
		}
	}
	add := func(change func(i, axis int, d int64) int64) {
		if !going {
			return
		}
		var list []*tensor.Tensor
		for i, in := range inputs {
			shape := in.Shape().Clone()
			for axis, d := range in.Shape() {
				shape[axis] = change(i, axis, d)
			}
			list = append(list, resized(in, shape))
		}
		going = yield(list)
	}
	for _, from := range sizes {
		add(func(_, _ int, d int64) int64 {
			if d == from {
				return manyPieces
			}
			return d
		})
		for _, none := range sizes {
			if none != from {
				add(func(_, _ int, d int64) int64 {
					switch d {
					case from:
						return manyPieces
					case none:
						return 0
					}
					return d
				})
			}
		}
	}
	for i, in := range inputs {
		for axis := range in.Rank() {
			add(func(j, at int, d int64) int64 { // all dimensions but one large, and that one 0
				switch {
				case j != i:
					return d
				case at == axis:
					return 0
				}
				return manyPieces
			})
		}
		if in.DType() != tensor.Int32 && in.DType() != tensor.Int64 || in.Len() > 4 {
			continue
		}
		for e := range in.Len() {
			list := make([]*tensor.Tensor, len(inputs))
			for j := range inputs {
				list[j] = resized(inputs[j], inputs[j].Shape())
			}
			if in.DType() == tensor.Int32 {
				tensor.Of[int32](list[i])[e] = manyPieces
			} else {
				tensor.Of[int64](list[i])[e] = manyPieces
			}
			if going = going && yield(list); !going {
				return
			}
		}
	}
}

// resized returns a tensor of the given shape that repeats the elements of in; if it has too many elements, its largest dimension is
// reduced.
func resized(in *tensor.Tensor, shape tensor.Shape) *tensor.Tensor {
	for n, err := shape.NumElements(); err != nil || n > manyElements; n, err = shape.NumElements() {
		shape[slices.Index(shape, slices.Max(shape))] /= 2
	}
	return repeated(in, shape)
}

// repeated returns a tensor of the given shape that repeats the elements of in.
func repeated(in *tensor.Tensor, shape tensor.Shape) *tensor.Tensor {
	out, err := tensor.Zeros(tensor.Host, in.DType(), shape)
	if err != nil {
		panic(err)
	}
	n := out.Len()
	for at := 0; at < n && in.Len() > 0; at += in.Len() {
		out.CopyElements(at, in, 0, min(in.Len(), n-at))
	}
	return out
}

func shapesOf(list []*tensor.Tensor) string {
	var b strings.Builder
	for _, v := range list {
		fmt.Fprintf(&b, "%v%v ", v.DType(), v.Shape())
	}
	return strings.TrimSpace(b.String())
}
