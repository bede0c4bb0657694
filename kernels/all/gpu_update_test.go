package all_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/tensor"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// change is an op that must change variables, its first inputs, in the same way on the accelerator and on the CPU.
type change struct {
	op        string
	attrs     kt.Attrs
	variables []*tensor.Tensor
	inputs    []*tensor.Tensor
	tolerance float64
}

// run returns the variables' values after the op, which has one output if it works by reference.
func (c change) run(t *testing.T) (after []*tensor.Tensor) {
	d := kt.NewDevice(t)
	var inputs []any
	var variables []*containers.Variable
	resource := strings.HasPrefix(c.op, "Resource") || strings.HasSuffix(c.op, "VariableOp")
	for i, x := range c.variables {
		v := containers.NewVariable(fmt.Sprint("v", i), x.DType())
		v.Assign(x.Retain())
		variables = append(variables, v)
		if !resource {
			inputs = append(inputs, v)
			continue
		}
		if _, err := d.Resources().LookupOrCreate("c", "Var", v.Name, func() (containers.Resource, error) { return v, nil }); err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, tensor.FromHandle(tensor.Handle{Device: d.Name(), Container: "c", Name: v.Name, Type: "Var"}))
	}
	for _, x := range c.inputs {
		inputs = append(inputs, x.Retain())
	}
	outputs := 1
	if resource {
		outputs = 0
	}
	d.Run(t, kt.Op{Type: c.op, Attrs: c.attrs, Outputs: outputs}, inputs...)
	for _, v := range variables {
		now := v.Read()
		own, err := now.Clone(tensor.Host)
		now.Release()
		v.Close()
		if err != nil {
			t.Fatal(err)
		}
		after = append(after, own)
	}
	return after
}

func changeLikeCPU(t *testing.T, cases ...change) {
	t.Helper()
	if kt.Accelerate == nil {
		t.Skip("there is no accelerator")
	}
	for i, c := range cases {
		t.Run(fmt.Sprint(i, " ", c.op, c.attrs, c.variables[0].Shape()), func(t *testing.T) {
			var want []*tensor.Tensor
			t.Run("CPU", func(t *testing.T) {
				kt.CPUOnly(t)
				want = c.run(t)
			})
			for i, got := range c.run(t) {
				if diff := kt.Diff(got, want[i], c.tolerance); diff != "" {
					t.Errorf("variable %d: %s", i, diff)
				}
				got.Release()
				want[i].Release()
			}
		})
	}
}

// between returns a tensor of numbers between 1/2 and 2.
func between(d tensor.DType, seed int, dims ...int64) *tensor.Tensor {
	n := 1
	for _, size := range dims {
		n *= int(size)
	}
	values := make([]float64, n)
	for i := range values {
		values[i] = 0.5 + float64((uint32(i)*7919+uint32(seed)*104729)*2654435761>>22)*1.5/1024
	}
	switch d {
	case tensor.Float32:
		narrow := make([]float32, n)
		for i, v := range values {
			narrow[i] = float32(v)
		}
		return kt.F32(kt.S(dims...), narrow...)
	case tensor.Float64:
		return kt.F64(kt.S(dims...), values...)
	}
	bits := make([]uint16, n)
	for i, v := range values { // one of eight values in each power of two
		exponent, step := 0, int(v*8)
		switch {
		case v < 1:
			exponent, step = -1, int(v*16)-8
		case v < 2:
			step -= 8
		}
		if d == tensor.Float16 {
			bits[i] = uint16(15+exponent)<<10 | uint16(step&7)<<7
		} else {
			bits[i] = uint16(127+exponent)<<7 | uint16(step&7)<<4
		}
	}
	return kt.Of(d, kt.S(dims...), bits...)
}

// minusHalf returns the scalar -0.5.
func minusHalf(d tensor.DType) *tensor.Tensor {
	switch d {
	case tensor.Float32:
		return kt.F32(kt.S(), -0.5)
	case tensor.Float64:
		return kt.F64(kt.S(), -0.5)
	case tensor.Float16:
		return kt.Of(d, kt.S(), uint16(0xb800))
	}
	return kt.Of(d, kt.S(), uint16(0xbf00))
}

var floatTolerance = map[tensor.DType]float64{tensor.Float32: 2e-5, tensor.Float64: 1e-12, tensor.Float16: 2e-3, tensor.BFloat16: 2e-2}

// TestOptimizersLikeCPU covers all forms of the optimizers, with sizes that leave a remainder after runs of 16 bytes, and sparse ones with
// repeated rows.
func TestOptimizersLikeCPU(t *testing.T) {
	var cases []change
	forms := append(slices.Clone(optimizerOps), optimizerForm{"ResourceApplyKerasMomentum", 2, 1, 1, false}, optimizerForm{"ResourceApplyAdamWithAmsgrad", 4, 6, 0, false},
		optimizerForm{"ResourceSparseApplyKerasMomentum", 2, 1, 1, false}, optimizerForm{"SparseApplyAdagradV2", 2, 2, 0, false},
		optimizerForm{"SparseApplyProximalAdagrad", 2, 3, 0, false}, optimizerForm{"SparseApplyFtrlV2", 3, 0, 5, false})
	for _, o := range forms {
		if o.globals {
			continue // the CPU alone has it
		}
		ops := []string{o.op}
		if !strings.HasPrefix(o.op, "Resource") {
			ops = append(ops, "Resource"+o.op)
		}
		for d, tolerance := range floatTolerance {
			for i, op := range ops {
				sparse := strings.Contains(op, "Sparse")
				dims := []int64{1, 1035}[i:]
				if sparse {
					dims = []int64{40, 27}
				}
				c := change{op: op, tolerance: tolerance, attrs: kt.Attrs{"T": d, "use_locking": true}}
				if strings.Contains(op, "Momentum") || strings.HasSuffix(op, "ApplyAdam") {
					c.attrs["use_nesterov"] = i == 0
				}
				for s := range o.slots {
					c.variables = append(c.variables, between(d, s, dims...))
				}
				scalar := func(i int) *tensor.Tensor {
					if o.op == "ApplyCenteredRMSProp" && i == 3 {
						return wide(d, 4) // more than the mean may subtract
					}
					return between(d, 50+i)
				}
				for i := range o.before {
					c.inputs = append(c.inputs, scalar(i))
				}
				grad := append([]int64(nil), dims...)
				if sparse {
					grad[0] = 9
				}
				c.inputs = append(c.inputs, between(d, 9, grad...))
				if sparse {
					c.inputs = append(c.inputs, kt.I32(kt.S(9), 3, 39, 3, 0, 17, 3, 39, 5, 0))
				}
				for i := range o.after {
					if strings.Contains(op, "Ftrl") && i == o.after-1 {
						c.inputs = append(c.inputs, minusHalf(d)) // the power of the learning rate
						continue
					}
					c.inputs = append(c.inputs, scalar(20+i))
				}
				cases = append(cases, c)
			}
		}
	}
	changeLikeCPU(t, cases...)
}

// wide returns a scalar that is a power of two.
func wide(d tensor.DType, exponent int) *tensor.Tensor {
	switch v := float64(int(1) << exponent); d {
	case tensor.Float32:
		return kt.F32(nil, float32(v))
	case tensor.Float64:
		return kt.F64(nil, v)
	case tensor.Float16:
		return kt.Of(d, nil, uint16(15+exponent)<<10)
	default:
		return kt.Of(d, nil, uint16(127+exponent)<<7)
	}
}

// TestUpdatesLikeCPU covers sums and scattered updates of variables of all types.
func TestUpdatesLikeCPU(t *testing.T) {
	var cases []change
	updated := []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int8, tensor.Int16, tensor.Int64,
		tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64, tensor.Complex64, tensor.Complex128}
	for _, d := range updated {
		for _, op := range []string{"AssignAdd", "AssignSub", "AssignAddVariableOp", "AssignSubVariableOp"} {
			cases = append(cases, change{op: op, attrs: kt.Attrs{"T": d, "dtype": d}, variables: []*tensor.Tensor{quarters(d, 1035)}, inputs: []*tensor.Tensor{quarters(d, 1035)}})
		}
	}
	// No element is named twice, since updates have no order then.
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int64} {
		for _, op := range []string{"Update", "Add", "Sub", "Mul", "Div", "Min", "Max"} {
			for _, prefix := range []string{"Scatter", "ResourceScatter"} {
				divisor := quarters(d, 3, 27)
				if op == "Div" {
					divisor = kt.Iota[int64](tensor.Int64, kt.S(3, 27))
					for i := range tensor.Of[int64](divisor) {
						tensor.Of[int64](divisor)[i]++
					}
					if d != tensor.Int64 {
						divisor = between(d, 3, 3, 27)
					}
				}
				cases = append(cases, change{op: prefix + op, attrs: kt.Attrs{"T": d, "dtype": d, "Tindices": tensor.Int32},
					variables: []*tensor.Tensor{quarters(d, 9, 27)}, inputs: []*tensor.Tensor{kt.I32(kt.S(3), 8, 0, 4), divisor}, tolerance: floatTolerance[d]})
				if op != "Mul" && op != "Div" {
					cases = append(cases, change{op: prefix + "Nd" + op, attrs: kt.Attrs{"T": d, "Tindices": tensor.Int64},
						variables: []*tensor.Tensor{quarters(d, 9, 3, 9)}, inputs: []*tensor.Tensor{kt.I64(kt.S(3, 2), 8, 2, 0, 1, 4, 0), quarters(d, 3, 9)}, tolerance: floatTolerance[d]})
				}
			}
		}
	}
	changeLikeCPU(t, cases...)
}
