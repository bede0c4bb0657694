package gradients

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/grad"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

var stateCases = slices.Concat([]gradCase{
	variable("ReadVariableOp", false, func(s *op.Scope, v op.Output) op.Output {
		return node(s, "ReadVariableOp", attrs{"dtype": tensor.Float64}, v).Output(0)
	}),
	variable("ResourceGather", true, func(s *op.Scope, v op.Output) op.Output {
		return node(s, "ResourceGather", attrs{"dtype": tensor.Float64}, v, rows(s)).Output(0)
	}),
	variable("ResourceGather", true, func(s *op.Scope, v op.Output) op.Output {
		a := node(s, "ResourceGather", attrs{"dtype": tensor.Float64}, v, rows(s)).Output(0)
		b := node(s, "ResourceGather", attrs{"dtype": tensor.Float64}, v, rows(s)).Output(0)
		return node(s, "Mul", nil, a, b).Output(0) // the sum of two gradients of rows stays rows
	}),
	variable("ResourceGather", false, func(s *op.Scope, v op.Output) op.Output {
		a := node(s, "ResourceGather", attrs{"dtype": tensor.Float64}, v, rows(s)).Output(0)
		b := node(s, "ReadVariableOp", attrs{"dtype": tensor.Float64}, v).Output(0)
		return node(s, "MatMul", attrs{"transpose_b": true}, a, b).Output(0) // the sum of rows and a dense gradient is dense
	}),
	variable("ResourceGatherNd", false, func(s *op.Scope, v op.Output) op.Output {
		at := node(s, "ExpandDims", nil, rows(s), node(s, "Const", attrs{"dtype": tensor.Int32, "value": tensor.Scalar(tensor.Int32, int32(-1))}).Output(0)).Output(0)
		return node(s, "ResourceGatherNd", attrs{"dtype": tensor.Float64}, v, at).Output(0)
	}),
	{name: "RefIdentity", in: []input{in(2)}, handles: new([]op.Output)},
	{name: "Print", in: []input{in(2)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		return floats(node(s, "Print", attrs{"first_n": 0}, x[0], op.List{}))
	}},
	arrayOfTensors(false), arrayOfTensors(true), splitArray(),
	optional(), sparseCase("SparseReorder"), sparseCase("SparseSlice"),
	filledRows(),
	sparseSum(), sparseSoftmax(), sparseTotal(false), sparseTotal(true), sparseByDense("SparseDenseCwiseMul"), sparseByDense("SparseDenseCwiseDiv"),
	call("SparseTensorDenseAdd", nil, matrixOf(3, 2, 0, 1, 1, 0, 0, 1), in(3), longs(2, 3), in(2, 3)),
	sparseProduct(false, false), sparseProduct(true, false), sparseProduct(false, true), sparseProduct(true, true),
	call("SparseToDense", nil, matrix(2, 2, 0, 1, 1, 2), ints(2, 3), in(2), in()), call("SparseToDense", nil, ints(0, 2), ints(4), in(2), in()),
	call("SparseToDense", nil, ints(0, 2), ints(4), in(), in()), call("SparseToDense", nil, scalar(2), ints(4), in(), in()),
	{name: "RaggedTensorToSparse", in: []input{longs(0, 2, 2, 5), in(5)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		return floats(node(s, "RaggedTensorToSparse", nil, op.List{x[0]}, x[1]))
	}},
	ragged(), raggedToTensor(in(5), in()), raggedToTensor(in(5, 2), in(2)), raggedToTensor(in(5, 2), in()),
})

func init() {
	for i := range stateCases {
		if c := &stateCases[i]; c.name == "RefIdentity" {
			c.f = func(s *op.Scope, x []op.Output) []op.Output {
				v := node(s, "VariableV2", attrs{"dtype": tensor.Float64, "shape": shape.Of(2)}).Output(0)
				assign := node(s, "Assign", nil, v, x[0])
				*c.handles = []op.Output{v}
				after := s.WithControlDependencies(assign)
				ref := node(after, "RefIdentity", nil, v).Output(0)
				return floats(node(after, "Square", nil, ref))
			}
		}
	}
}

func rows(s *op.Scope) op.Output {
	return node(s, "Const", attrs{"dtype": tensor.Int32, "value": int32s(2, 0, 2)}).Output(0)
}

// variable returns a case whose input is stored in a variable; gradients are computed for its handle.
func variable(name string, sparse bool, read func(s *op.Scope, handle op.Output) op.Output) gradCase {
	handles := new([]op.Output)
	return gradCase{name: name, in: []input{in(4, 2)}, handles: handles, sparse: sparse, f: func(s *op.Scope, x []op.Output) []op.Output {
		v := node(s, "VarHandleOp", attrs{"dtype": tensor.Float64, "shape": shape.Of(4, 2), "shared_name": s.Prefix() + name}).Output(0)
		*handles = []op.Output{v}
		assigned := node(s, "AssignVariableOp", attrs{"dtype": tensor.Float64}, v, x[0])
		y := read(s.WithControlDependencies(assigned), v)
		return floats(node(s, "Square", nil, y))
	}}
}

func int32Const(s *op.Scope, v int32) op.Output {
	return node(s, "Const", attrs{"dtype": tensor.Int32, "value": tensor.Scalar(tensor.Int32, v)}).Output(0)
}

// arrayOfTensors writes rows to a TensorArray, one by one or all at once, and reads some of them back, one twice.
func arrayOfTensors(scatter bool) gradCase {
	name := "TensorArrayWriteV3"
	if scatter {
		name = "TensorArrayScatterV3"
	}
	return gradCase{name: name, in: []input{in(3, 2)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		a := node(s, "TensorArrayV3", attrs{"dtype": tensor.Float64, "clear_after_read": false}, int32Const(s, 3))
		handle, flow := a.Output(0), a.Output(1)
		every := node(s, "Const", attrs{"dtype": tensor.Int32, "value": int32s(0, 1, 2)}).Output(0)
		squared := node(s, "Square", nil, x[0]).Output(0)
		if scatter {
			flow = node(s, "TensorArrayScatterV3", nil, handle, every, squared, flow).Output(0)
		} else {
			for i, row := range node(s, "Unpack", attrs{"num": 3}, squared).OutputList(0) {
				flow = node(s, "TensorArrayWriteV3", nil, handle, int32Const(s, int32(i)), row, flow).Output(0)
			}
		}
		read := node(s, "TensorArrayReadV3", attrs{"dtype": tensor.Float64}, handle, int32Const(s, 1), flow).Output(0)
		all := node(s, "TensorArrayGatherV3", attrs{"dtype": tensor.Float64}, handle, every, flow).Output(0)
		return []op.Output{node(s, "Mul", nil, all, read).Output(0)}
	}}
}

func splitArray() gradCase {
	return gradCase{name: "TensorArraySplitV3", in: []input{in(3, 2), longs(1, 2)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		a := node(s, "TensorArrayV3", attrs{"dtype": tensor.Float64, "clear_after_read": false}, int32Const(s, 2))
		flow := node(s, "TensorArraySplitV3", nil, a.Output(0), node(s, "Square", nil, x[0]).Output(0), x[1], a.Output(1)).Output(0)
		return floats(node(s, "TensorArrayConcatV3", attrs{"dtype": tensor.Float64}, a.Output(0), flow))
	}}
}

func optional() gradCase {
	return gradCase{name: "OptionalFromValue", in: []input{in(2), in(3)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		o := node(s, "OptionalFromValue", nil, op.List(x)).Output(0)
		types, shapes := []tensor.DType{tensor.Float64, tensor.Float64}, []shape.Shape{shape.Unknown(), shape.Unknown()}
		return floats(node(s, "OptionalGetValue", attrs{"output_types": types, "output_shapes": shapes}, o))
	}}
}

// sparseCase returns a case of an op on a sparse tensor of four elements, not in order.
func sparseCase(name string) gradCase {
	indices := longs(1, 2, 0, 1, 1, 0, 0, 0)
	if name == "SparseSlice" {
		indices = longs(0, 0, 0, 1, 1, 0, 1, 2)
	}
	indices.shape = tensor.Shape{4, 2}
	arguments := []input{indices, in(4), longs(2, 3)}
	if name == "SparseSlice" {
		arguments = append(arguments, longs(0, 1), longs(2, 2))
	}
	return call(name, nil, arguments...)
}

// matrixOf returns a matrix of int64.
func matrixOf(rows, columns int64, v ...float64) input {
	m := longs(v...)
	m.shape = tensor.Shape{rows, columns}
	return m
}

func sparseSum() gradCase {
	return call("SparseAdd", nil, matrixOf(3, 2, 0, 0, 0, 2, 1, 1), in(3), longs(2, 3), matrixOf(2, 2, 0, 1, 1, 1), in(2), longs(2, 3), in().with(0).fixed())
}

func sparseTotal(keep bool) gradCase {
	return call("SparseReduceSum", attrs{"keep_dims": keep}, matrixOf(4, 2, 0, 0, 0, 2, 1, 1, 1, 2), in(4), longs(2, 3), ints(-1))
}

func sparseSoftmax() gradCase {
	return call("SparseSoftmax", nil, matrixOf(4, 2, 0, 0, 0, 2, 1, 1, 1, 2), in(4), longs(2, 3))
}

func sparseByDense(name string) gradCase {
	return call(name, nil, matrixOf(4, 3, 0, 0, 0, 0, 1, 2, 1, 0, 1, 1, 1, 2), in(4), longs(2, 2, 3), in(2, 1))
}

func sparseProduct(adjointA, adjointB bool) gradCase {
	b := in(3, 4)
	if adjointA {
		b = in(2, 4)
	}
	if adjointB {
		b = in(4, b.shape[0])
	}
	return call("SparseTensorDenseMatMul", attrs{"adjoint_a": adjointA, "adjoint_b": adjointB}, matrixOf(4, 2, 0, 0, 0, 2, 1, 1, 1, 2), in(4), longs(2, 3), b)
}

// filledRows returns a case with a sparse tensor of six rows, three of which are empty.
func filledRows() gradCase {
	indices := longs(0, 1, 3, 2, 1, 0)
	indices.shape = tensor.Shape{3, 2}
	return call("SparseFillEmptyRows", nil, indices, in(3), longs(6, 3), in())
}

func ragged() gradCase {
	return gradCase{name: "RaggedTensorToVariant", in: []input{longs(0, 2, 2, 5), in(5, 2)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		v := node(s, "RaggedTensorToVariant", attrs{"batched_input": true}, op.List{x[0]}, node(s, "Square", nil, x[1]).Output(0)).Output(0)
		back := attrs{"input_ragged_rank": 0, "output_ragged_rank": 1, "Tvalues": tensor.Float64, "Tsplits": tensor.Int64}
		return floats(node(s, "RaggedTensorFromVariant", back, v))
	}}
}

func raggedToTensor(values, preset input) gradCase {
	return gradCase{name: "RaggedTensorToTensor", in: []input{longs(3, 4), values, preset, longs(0, 2, 2, 5)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		size := x[0]
		if n := len(values.shape); n > 1 {
			more := node(s, "Const", attrs{"dtype": tensor.Int64, "value": tensor.Scalar(tensor.Int64, int64(2))}).Output(0)
			size = node(s, "ConcatV2", nil, op.List{x[0], node(s, "ExpandDims", nil, more, int32Const(s, 0)).Output(0)}, int32Const(s, 0)).Output(0)
		}
		return floats(node(s, "RaggedTensorToTensor", attrs{"row_partition_types": []string{"ROW_SPLITS"}}, size, x[1], x[2], op.List{x[3]}))
	}}
}

// gammaSamples checks the gradient of samples of the gamma distribution: how a sample moves if its quantile stays the same,
// −(dF/dα)/(dF/dx), for the distribution function F that Igamma computes.
func gammaSamples(t *testing.T) {
	ints := func(s *op.Scope, v ...int32) op.Output {
		return node(s, "Const", attrs{"dtype": tensor.Int32, "value": int32s(v...)}).Output(0)
	}
	for name, draw := range map[string]func(s *op.Scope, alpha op.Output) op.Output{
		"RandomGamma": func(s *op.Scope, alpha op.Output) op.Output {
			return node(s, "RandomGamma", nil, ints(s, 1), alpha).Output(0)
		},
		"StatelessRandomGammaV2": func(s *op.Scope, alpha op.Output) op.Output {
			return node(s, "StatelessRandomGammaV2", nil, ints(s, 1, 3), ints(s, 4, 5), alpha).Output(0)
		},
		"StatelessRandomGammaV3": func(s *op.Scope, alpha op.Output) op.Output {
			state := node(s, "StatelessRandomGetKeyCounter", nil, ints(s, 4, 5))
			return node(s, "StatelessRandomGammaV3", nil, ints(s, 1, 3), state.Output(0), state.Output(1), node(s, "StatelessRandomGetAlg", nil).Output(0), alpha).Output(0)
		},
	} {
		t.Run(name, func(t *testing.T) { gammaSample(t, draw) })
	}
}

func gammaSample(t *testing.T, draw func(s *op.Scope, alpha op.Output) op.Output) {
	s := op.NewScope()
	alpha := node(s, "Placeholder", attrs{"dtype": tensor.Float64}).Output(0)
	x := draw(s, alpha)
	cover(s)
	d := grad.Gradients(s, []op.Output{x}, []op.Output{alpha})[0].Dense(s)
	at := node(s, "Placeholder", attrs{"dtype": tensor.Float64}).Output(0)
	f := node(s, "Igamma", nil, alpha, at).Output(0)
	sess := session(t, s)
	a := []float64{0.7, 1.5, 3}
	feed := func(v []float64) *tensor.Tensor {
		out := tensorOf(t, tensor.Float64, tensor.Shape{int64(len(v))}, v)
		t.Cleanup(out.Release)
		return out
	}
	got, _ := run(t, sess, map[string]*tensor.Tensor{alpha.Name(): feed(a)}, x, d)
	sample := got[0]
	distribution := func(a, x []float64) []float64 {
		out, _ := run(t, sess, map[string]*tensor.Tensor{alpha.Name(): feed(a), at.Name(): feed(x)}, f)
		return out[0]
	}
	shifted := func(v []float64, by float64) []float64 { return each(v, func(e float64) float64 { return e + by }) }
	const h = 1e-5
	moreA, lessA := distribution(shifted(a, h), sample), distribution(shifted(a, -h), sample)
	moreX, lessX := distribution(a, shifted(sample, h)), distribution(a, shifted(sample, -h))
	for i := range a {
		want := -(moreA[i] - lessA[i]) / (moreX[i] - lessX[i])
		if math.Abs(got[1][i]-want) > 1e-3*max(1, math.Abs(want)) {
			t.Errorf("alpha %v, sample %v: the gradient is %v, not %v", a[i], sample[i], got[1][i], want)
		}
	}
}

// truncatedSamples is gammaSamples for a normal distribution between bounds, whose parameters are vectors or scalars.
func truncatedSamples(t *testing.T) {
	s := op.NewScope()
	ints := func(v ...int32) op.Output {
		return node(s, "Const", attrs{"dtype": tensor.Int32, "value": int32s(v...)}).Output(0)
	}
	var given []op.Output
	for range 4 {
		given = append(given, node(s, "Placeholder", attrs{"dtype": tensor.Float64}).Output(0))
	}
	x := node(s, "StatelessParameterizedTruncatedNormal", nil, ints(3, 2), ints(4, 5), given[0], given[1], given[2], given[3]).Output(0)
	cover(s)
	fetches := []op.Output{x}
	for _, d := range grad.Gradients(s, []op.Output{x}, given) {
		fetches = append(fetches, d.Dense(s))
	}
	parameters := [][]float64{{0.5, -1}, {2}, {-1, -3}, {1.5}}
	shapes := []tensor.Shape{{2}, {}, {2}, {}}
	feeds := map[string]*tensor.Tensor{}
	for i, p := range given {
		v := tensorOf(t, tensor.Float64, shapes[i], parameters[i])
		t.Cleanup(v.Release)
		feeds[p.Name()] = v
	}
	got, _ := run(t, session(t, s), feeds, fetches...)
	// place returns the quantile of a sample of column j.
	place := func(j int, x float64, p [4]float64) float64 {
		below := func(x float64) float64 { return math.Erfc(-(x-p[0])/p[1]/math.Sqrt2) / 2 }
		return (below(x) - below(p[2])) / (below(p[3]) - below(p[2]))
	}
	const h = 1e-6
	for i, list := range parameters {
		want := make([]float64, len(list))
		for k, x := range got[0] {
			j := k % 2
			var p [4]float64
			for l := range p {
				p[l] = parameters[l][j%len(parameters[l])]
			}
			more, less := p, p
			more[i] += h
			less[i] -= h
			want[j%len(list)] += -(place(j, x, more) - place(j, x, less)) / (place(j, x+h, p) - place(j, x-h, p))
		}
		for k, v := range want {
			if math.Abs(got[1+i][k]-v) > 1e-4*max(1, math.Abs(v)) {
				t.Errorf("parameter %d: the gradient is %v, not %v", i, got[1+i], want)
			}
		}
	}
}

// withoutGradients checks that a missing gradient is an error only where it is requested.
func withoutGradients(t *testing.T) {
	for _, c := range []struct {
		name, want string
		code       status.Code
		build      func(s *op.Scope, x op.Output) (ys []op.Output, opts []grad.Option)
	}{
		{"PreventGradient", "explicitly disabled: ask not", status.FailedPrecondition, func(s *op.Scope, x op.Output) ([]op.Output, []grad.Option) {
			return floats(node(s, "PreventGradient", attrs{"message": "ask not"}, x)), nil
		}},
		{"no rule", "The op Lu has no gradient", status.Unimplemented, func(s *op.Scope, x op.Output) ([]op.Output, []grad.Option) {
			return floats(node(s, "Lu", nil, x)), nil
		}},
		{"no rule, not on the way", "", status.OK, func(s *op.Scope, x op.Output) ([]op.Output, []grad.Option) {
			node(s, "Lu", nil, x)
			return []op.Output{node(s, "Square", nil, x).Output(0)}, nil
		}},
		{"no rule, behind a stop", "", status.OK, func(s *op.Scope, x op.Output) ([]op.Output, []grad.Option) {
			lu := node(s, "Lu", nil, x).Output(0)
			return []op.Output{node(s, "Mul", nil, lu, x).Output(0)}, []grad.Option{grad.StopAt(lu)}
		}},
		{"a function that draws", "(RandomStandardNormal) would run a second time", status.Unimplemented, func(s *op.Scope, x op.Output) ([]op.Output, []grad.Option) {
			return op.Cond(s, op.Const(s, true), func(s *op.Scope) []op.Output {
				noise := node(s, "RandomStandardNormal", attrs{"dtype": tensor.Float64}, op.Shape(s, x)).Output(0)
				return []op.Output{op.Mul(s, x, noise)}
			}, func(s *op.Scope) []op.Output { return []op.Output{x} }), nil
		}},
		{"integers", "cannot be differentiated", status.InvalidArgument, func(s *op.Scope, x op.Output) ([]op.Output, []grad.Option) {
			shape := node(s, "Shape", nil, x).Output(0)
			return []op.Output{x, shape}, nil
		}},
		{"too few", "2 ys, but 1 gradients", status.InvalidArgument, func(s *op.Scope, x op.Output) ([]op.Output, []grad.Option) {
			return []op.Output{x, x}, []grad.Option{grad.From(x)}
		}},
	} {
		s := op.NewScope()
		x := node(s, "Placeholder", attrs{"dtype": tensor.Float64}).Output(0)
		ys, opts := c.build(s, x)
		cover(s)
		d := grad.Gradients(s, ys, []op.Output{x}, opts...)
		err := s.Err()
		if c.code == status.OK {
			if err != nil || !d[0].Connected() {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if status.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.want) || !strings.Contains(fmt.Sprint(err), "state_test.go:") {
			t.Errorf("%s: %v: %v; want %v: %s, and the line", c.name, status.CodeOf(err), err, c.code, c.want)
		}
	}
	s := op.NewScope()
	x, other := node(s, "Placeholder", attrs{"dtype": tensor.Float64}).Output(0), node(s, "Placeholder", attrs{"dtype": tensor.Float64}).Output(0)
	for _, y := range []op.Output{node(s, "Square", nil, x).Output(0), node(s, "Mul", nil, node(s, "Sign", nil, other).Output(0), x).Output(0)} {
		d := grad.Gradients(s, []op.Output{y}, []op.Output{other, y})
		if d[0].Connected() || d[0].Dense(s).Op != nil || !d[1].Connected() || s.Err() != nil {
			t.Errorf("gradients of what a tensor does not depend on, and of itself: %v, %v", d, s.Err())
		}
	}
}
