package all_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// like is an op that must yield the same on the accelerator as on the CPU, for sizes larger than those in the tables, which take several
// blocks, warps, tiles or launches.
type like struct {
	op        string
	attrs     kt.Attrs
	inputs    []*tensor.Tensor
	tolerance float64
}

// likeCPU runs the ops. Without an accelerator there is nothing to compare.
func likeCPU(t *testing.T, cases ...like) {
	t.Helper()
	if kt.Accelerate == nil {
		t.Skip("there is no accelerator")
	}
	for i, c := range cases {
		shapes := ""
		for _, in := range c.inputs {
			shapes += fmt.Sprint(" ", in.DType(), in.Shape())
		}
		t.Run(fmt.Sprint(i, " ", c.op, c.attrs, shapes), func(t *testing.T) {
			var want []kernels.Value
			t.Run("CPU", func(t *testing.T) {
				kt.CPUOnly(t)
				out := c.run(t)
				for _, v := range out {
					clone, err := v.Tensor.Clone(tensor.Host)
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, kernels.Value{Tensor: clone})
					v.Release()
				}
			})
			if t.Failed() {
				return
			}
			for i, v := range c.run(t) {
				if diff := kt.Diff(v.Tensor, want[i].Tensor, c.tolerance); diff != "" {
					t.Errorf("output %d: %s", i, diff)
				}
				v.Release()
				want[i].Release()
			}
		})
	}
}

func (c *like) run(t *testing.T) []kernels.Value {
	d := kt.NewDevice(t)
	inputs := make([]any, len(c.inputs))
	for i, in := range c.inputs {
		inputs[i] = in.Retain()
	}
	return d.Run(t, kt.Op{Type: c.op, Attrs: c.attrs}, inputs...)
}

var rng = rand.New(rand.NewPCG(3, 4))

// quarters returns a tensor of random multiples of 1/4 between -4 and 4, of integers for integer types, or of random bits for other types;
// few sums of these are rounded.
func quarters(d tensor.DType, dims ...int64) *tensor.Tensor {
	t, err := tensor.Zeros(tensor.Host, d, dims)
	if err != nil {
		panic(err)
	}
	for i := range t.Len() {
		v := float64(rng.IntN(33)-16) / 4
		switch d {
		case tensor.Float32:
			tensor.Of[float32](t)[i] = float32(v)
		case tensor.Float64:
			tensor.Of[float64](t)[i] = v
		case tensor.Float16:
			tensor.Of[uint16](t)[i] = halfBits(v)
		case tensor.BFloat16:
			tensor.Of[uint16](t)[i] = uint16(math.Float32bits(float32(v)) >> 16)
		case tensor.Int32:
			tensor.Of[int32](t)[i] = int32(v)
		case tensor.Int64:
			tensor.Of[int64](t)[i] = int64(v)
		case tensor.Bool:
			tensor.Of[bool](t)[i] = rng.IntN(20) > 0
		default:
			for j := range d.Size() {
				t.Data()[i*d.Size()+j] = byte(rng.Uint32())
			}
		}
	}
	return t
}

// halfBits returns a multiple of 1/4 below 8 in half precision.
func halfBits(v float64) uint16 {
	if v == 0 {
		return 0
	}
	frac, exp := math.Frexp(math.Abs(v))
	bits := uint16(exp+14)<<10 | uint16((frac*2-1)*1024)
	if v < 0 {
		bits |= 0x8000
	}
	return bits
}

// indices returns random indices below n; with outside, some are out of range.
func indices(n int64, outside bool, dims ...int64) *tensor.Tensor {
	t, err := tensor.Zeros(tensor.Host, tensor.Int64, dims)
	if err != nil {
		panic(err)
	}
	for i := range t.Len() {
		tensor.Of[int64](t)[i] = rng.Int64N(n)
		if outside && rng.IntN(4) == 0 {
			tensor.Of[int64](t)[i] = []int64{-1, n, math.MinInt64, math.MaxInt64}[rng.IntN(4)]
		}
	}
	return t
}

func axes(v ...int32) *tensor.Tensor { return kt.I32(kt.S(int64(len(v))), v...) }

func int1(v int32) *tensor.Tensor { return kt.I32(nil, v) }

// sized has one type for each element size.
var sized = []tensor.DType{tensor.Uint8, tensor.Float16, tensor.Float32, tensor.Float64, tensor.Complex128}
