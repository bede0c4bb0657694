package all_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func TestArrayOpsLikeTensorFlow(t *testing.T) {
	kt.LikeTensorFlow(t, "testdata/arrayops.jsonl.gz", func(c *kt.Case) bool {
		if c.Op == "Bitcast" {
			// TensorFlow names the types by number.
			c.Err = ""
		}
		// Element types that TensorFlow's CPU kernels do not support work here. An accelerator does not check indices, see
		// TestIndicesOutsideOnAccelerator, and has no order of updates.
		return c.Code != status.Unimplemented && !(kt.Accelerate != nil && aboutIndices(c))
	})
}

// aboutIndices reports whether a case fails because of the values of indices on a device, or has two updates of one element.
func aboutIndices(c *kt.Case) bool {
	return strings.Contains(c.Err, "is not in [") || strings.Contains(c.Err, "does not index into") || strings.Contains(c.Err, "seq_lens(") ||
		c.Name == "TensorScatterUpdate/913"
}

// Whatever the inputs hold, ops must return an error or a result, must not change shared inputs, and must not leak memory.
func TestArrayOpsNeverPanic(t *testing.T) {
	t.Parallel()
	rounds := 12
	if !extent.Check() || extent.RaceDetector { // a panic also occurs without the race detector
		rounds = 2
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range kt.Golden(t, "testdata/arrayops.jsonl.gz") {
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("%s panics for %s: %v", c.Name, describeInputs(c.Inputs), r)
				}
			}()
			for range rounds {
				if len(c.Inputs) == 0 {
					break
				}
				odd := *c
				odd.Inputs = append([]any(nil), c.Inputs...)
				// The memory of strings is not accounted for, so sizes stay small if there are any.
				huge := !slices.ContainsFunc(c.Inputs, func(in any) bool { return in.(*tensor.Tensor).DType() == tensor.String })
				for range 1 + rng.IntN(2) {
					i := rng.IntN(len(c.Inputs))
					odd.Inputs[i] = garbage(rng, c.Inputs[i].(*tensor.Tensor).DType(), huge)
				}
				c := odd
				for _, own := range []bool{false, true} {
					tryOdd(t, &c, own)
				}
			}
		}()
	}
}

func tryOdd(t *testing.T, c *kt.Case, own bool) {
	t.Helper()
	d := kt.NewDevice(t)
	var inputs []any
	var shared []*tensor.Tensor
	for _, in := range c.Inputs {
		mine, err := in.(*tensor.Tensor).Clone(d.Pool())
		if err != nil {
			t.Fatal(err)
		}
		if !own {
			shared = append(shared, mine.Retain())
		}
		inputs = append(inputs, mine)
	}
	outputs, _ := d.Try(kt.Op{Type: c.Op, Raw: c.Raw, Outputs: len(c.Want)}, inputs...)
	for i, s := range shared {
		if diff := kt.Diff(s, c.Inputs[i].(*tensor.Tensor), 0); diff != "" {
			t.Errorf("%s wrote to input %d: %s", c.Name, i, diff)
		}
		s.Release()
	}
	for _, v := range outputs {
		v.Release()
	}
}

func garbage(rng *rand.Rand, dtype tensor.DType, huge bool) *tensor.Tensor {
	shape := make(tensor.Shape, rng.IntN(4))
	for i := range shape {
		shape[i] = int64(rng.IntN(5))
	}
	x, err := tensor.Zeros(tensor.Host, dtype, shape)
	if err != nil {
		panic(err)
	}
	number := func() int64 {
		if huge && rng.IntN(12) == 0 {
			return []int64{1 << 40, -1 << 62, 1<<63 - 1, -1 << 63, 1<<31 - 1}[rng.IntN(5)]
		}
		return int64(rng.IntN(10)) - 3
	}
	switch dtype {
	case tensor.Int32:
		for i := range tensor.Of[int32](x) {
			tensor.Of[int32](x)[i] = int32(number())
		}
	case tensor.Int64:
		for i := range tensor.Of[int64](x) {
			tensor.Of[int64](x)[i] = number()
		}
	default:
		for i := range x.Data() {
			x.Data()[i] = byte(rng.IntN(2))
		}
	}
	return x
}

func describeInputs(inputs []any) string {
	s := ""
	for _, in := range inputs {
		t := in.(*tensor.Tensor)
		s += fmt.Sprintf("%v%v ", t.DType(), t.Shape())
		for i := range min(t.Len(), 8) {
			s += fmt.Sprint(kt.Element(t, i), " ")
		}
	}
	return s
}

// Large arrays are moved in parts and tiles; a loop over all coordinates computes the expected result.
func TestMovingMuch(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	d := kt.NewDevice(t)
	for _, shape := range []tensor.Shape{kt.S(300, 333), kt.S(97, 3, 200), kt.S(5, 400, 61), kt.S(2, 33, 40, 50), kt.S(1, 90000), kt.S(70000, 2), kt.S(2, 70000)} {
		for range 4 {
			perm := rng.Perm(len(shape))
			x := kt.Iota[int32](tensor.Int32, shape)
			p := make([]int32, len(perm))
			outShape := make(tensor.Shape, len(perm))
			for i, v := range perm {
				p[i], outShape[i] = int32(v), shape[v]
			}
			want := kt.Iota[int32](tensor.Int32, outShape)
			eachCoordinate(outShape, func(i int, at []int64) {
				from := make([]int64, len(at))
				for k, v := range perm {
					from[v] = at[k]
				}
				tensor.Of[int32](want)[i] = int32(flat(shape, from))
			})
			kt.Expect(t, d.Run(t, kt.Op{Type: "Transpose"}, x, kt.I32(kt.S(int64(len(p))), p...)), want)
		}
	}
	x := kt.Iota[int32](tensor.Int32, kt.S(300, 7))
	want := kt.Iota[int32](tensor.Int32, kt.S(900, 77))
	eachCoordinate(kt.S(900, 77), func(i int, at []int64) {
		tensor.Of[int32](want)[i] = int32(flat(kt.S(300, 7), []int64{at[0] % 300, at[1] % 7}))
	})
	kt.Expect(t, d.Run(t, kt.Op{Type: "Tile"}, x, kt.I32(kt.S(2), 3, 11)), want)

	params := kt.Iota[int32](tensor.Int32, kt.S(4, 100, 60))
	list := make([]int32, 200)
	for i := range list {
		list[i] = int32(rng.IntN(100))
	}
	want = kt.Iota[int32](tensor.Int32, kt.S(4, 200, 60))
	eachCoordinate(kt.S(4, 200, 60), func(i int, at []int64) {
		tensor.Of[int32](want)[i] = int32(flat(kt.S(4, 100, 60), []int64{at[0], int64(list[at[1]]), at[2]}))
	})
	kt.Expect(t, d.Run(t, kt.Op{Type: "GatherV2"}, params, kt.I32(kt.S(200), list...), kt.I32(nil, 1)), want)
}

func eachCoordinate(shape tensor.Shape, f func(i int, at []int64)) {
	at := make([]int64, len(shape))
	for i := range shape.Elements() {
		f(i, at)
		for k := len(at) - 1; k >= 0; k-- {
			if at[k]++; at[k] < shape[k] {
				break
			}
			at[k] = 0
		}
	}
}

func flat(shape tensor.Shape, at []int64) (i int64) {
	for k, d := range shape {
		i = i*d + at[k]
	}
	return i
}

// TestGatherRows gathers rows of all lengths up to 40, some of which are moved as a unit, with elements of all sizes.
func TestGatherRows(t *testing.T) {
	d := kt.NewDevice(t)
	indices := []int32{3, 0, 6, 6, 1}
	for _, dtype := range []tensor.DType{tensor.Uint8, tensor.Int16, tensor.Float32, tensor.Int64, tensor.Complex128} {
		for n := range int64(41) {
			size := int(n) * dtype.Size()
			params := zeros(dtype, 7, n)
			for i := range params.Data() {
				params.Data()[i] = byte(i*i>>3 + i)
			}
			want := []byte{}
			for _, r := range indices {
				want = append(want, params.Data()[int(r)*size:][:size]...)
			}
			out := d.Run(t, kt.Op{Type: "GatherV2", Attrs: kt.Attrs{"batch_dims": 0}}, params, kt.I32(kt.S(5), indices...), kt.I32(nil, 0))[0].Tensor
			if !bytes.Equal(out.Data(), want) {
				t.Fatalf("rows of %d elements of %v: %v, want %v", n, dtype, out.Data(), want)
			}
			out.Release()
		}
	}
}
