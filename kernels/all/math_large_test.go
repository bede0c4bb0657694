package all_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// uniform returns a float tensor of elements between -1 and 1.
func uniform(r *rand.Rand, dims ...int64) *tensor.Tensor {
	t := zeros(tensor.Float32, dims...)
	for i := range t.Len() {
		tensor.Of[float32](t)[i] = r.Float32()*2 - 1
	}
	return t
}

// index returns the position of element i of a tensor of shape out in an operand that is broadcast to it.
func index(out, operand tensor.Shape, i int) int {
	at, step := 0, 1
	for back := 1; back <= len(out); back++ {
		d := int(out[len(out)-back])
		if back <= len(operand) {
			size := int(operand[len(operand)-back])
			if size != 1 {
				at += i % d * step
			}
			step *= size
		}
		i /= d
	}
	return at
}

// TestLargeBroadcasts covers the ways in which large operands are divided.
func TestLargeBroadcasts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range [][3]tensor.Shape{
		{{100003}, {100003}, {100003}},
		{{100003}, {}, {100003}},
		{{400, 301}, {301}, {400, 301}},
		{{400, 301}, {400, 1}, {400, 301}},
		{{50000, 3}, {3}, {50000, 3}},
		{{50000, 3}, {50000, 1}, {50000, 3}},
		{{1, 300}, {200, 1}, {200, 300}},
		{{30, 1, 40, 7}, {50, 1, 7}, {30, 50, 40, 7}},
		{{30, 1, 40, 1}, {50, 1, 7}, {30, 50, 40, 7}},
		{{200, 1, 300}, {200, 2, 1}, {200, 2, 300}},
	} {
		for _, swap := range []bool{false, true} {
			sa, sb, out := c[0], c[1], c[2]
			if swap {
				sa, sb = sb, sa
			}
			a, b := uniform(r, sa...), uniform(r, sb...)
			want := zeros(tensor.Float32, out...)
			for i := range want.Len() {
				tensor.Of[float32](want)[i] = tensor.Of[float32](a)[index(out, sa, i)] - tensor.Of[float32](b)[index(out, sb, i)]
			}
			kt.Check(t, kt.Case{Name: fmt.Sprint(sa, sb), Op: "Sub", Attrs: kt.Attrs{"T": tensor.Float32}, Inputs: []any{a, b}, Want: []*tensor.Tensor{want}})
		}
	}
}

// TestLargeReductions compares reductions with sums in float64.
func TestLargeReductions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		shape tensor.Shape
		axes  []int32
	}{
		{tensor.Shape{200003}, []int32{0}}, {tensor.Shape{3, 70001}, []int32{1}}, {tensor.Shape{70001, 3}, []int32{0}}, {tensor.Shape{300, 401}, []int32{0}},
		{tensor.Shape{300, 401}, []int32{1}}, {tensor.Shape{2, 40000}, []int32{0}}, {tensor.Shape{20, 300, 40}, []int32{1}}, {tensor.Shape{20, 30, 40, 10}, []int32{0, 2}},
		{tensor.Shape{20, 30, 40, 10}, []int32{1, 3}}, {tensor.Shape{1000, 130}, []int32{0}},
	} {
		in := uniform(r, c.shape...)
		reduced := map[int]bool{}
		for _, a := range c.axes {
			reduced[int(a)] = true
		}
		var out tensor.Shape
		for i, d := range c.shape {
			if !reduced[i] {
				out = append(out, d)
			}
		}
		sums, tops := make([]float64, out.Elements()), make([]float32, out.Elements())
		for i := range tops {
			tops[i] = float32(math.Inf(-1))
		}
		for i, v := range tensor.Of[float32](in) {
			at, step := 0, 1
			for d, rest := len(c.shape)-1, i; d >= 0; d-- {
				if !reduced[d] {
					at += rest % int(c.shape[d]) * step
					step *= int(c.shape[d])
				}
				rest /= int(c.shape[d])
			}
			sums[at] += float64(v)
			tops[at] = max(tops[at], v)
		}
		sum := zeros(tensor.Float32, out...)
		for i, s := range sums {
			tensor.Of[float32](sum)[i] = float32(s)
		}
		axes := kt.I32(kt.S(int64(len(c.axes))), c.axes...)
		attrs := kt.Attrs{"T": tensor.Float32, "Tidx": tensor.Int32, "keep_dims": false}
		kt.Check(t,
			kt.Case{Name: fmt.Sprint("Sum", c.shape, c.axes), Op: "Sum", Attrs: attrs, Inputs: []any{in, axes}, Want: []*tensor.Tensor{sum}, Tolerance: 1e-3},
			kt.Case{Name: fmt.Sprint("Max", c.shape, c.axes), Op: "Max", Attrs: attrs, Inputs: []any{in, axes}, Want: []*tensor.Tensor{kt.F32(out, tops...)}})
	}
}

// TestRandomSequence compares numbers far into the sequence, and those of a second run, with
// TensorFlow's for the seeds 1 and 2.
func TestRandomSequence(t *testing.T) {
	const n = 100003
	for _, c := range []struct {
		op            string
		dtype         tensor.DType
		first, second [2]float64
		tolerance     float64
	}{
		{"RandomUniform", tensor.Float32, [2]float64{0.0027456283569335938, 0.03602409362792969}, [2]float64{0.18084657192230225, 0.04771411418914795}, 0},
		{"RandomUniform", tensor.Float64, [2]float64{0.8747513699082423, 0.9156407278307468}, [2]float64{0.4467734380021633, 0.9517250189809552}, 0},
		{"RandomStandardNormal", tensor.Float32, [2]float64{2.613295078277588, 2.5449166297912598}, [2]float64{1.2454893589019775, 1.3349723815917969}, 3e-7},
		{"RandomStandardNormal", tensor.Float64, [2]float64{0.5025058037180269, 0.11712208468259014}, [2]float64{1.269412054667055, -0.1291478879137269}, 1e-15},
		{"TruncatedNormal", tensor.Float32, [2]float64{-0.3370158076286316, -0.5443632006645203}, [2]float64{1.2454893589019775, 0.3748341500759125}, 3e-7},
		{"TruncatedNormal", tensor.Float64, [2]float64{-0.8479403994655881, -1.1385293523805293}, [2]float64{1.269412054667055, 0.9051488107053737}, 1e-15},
	} {
		t.Run(c.op+" "+c.dtype.String(), func(t *testing.T) {
			d := kt.NewDevice(t)
			op := kt.Op{Type: c.op, Attrs: kt.Attrs{"dtype": c.dtype, "seed": 1, "seed2": 2}, Outputs: 1}
			k, err := d.Kernel(op, kt.I32(kt.S(1), n))
			if err != nil {
				t.Fatal(err)
			}
			for run, want := range [][2]float64{c.first, c.second} {
				out, err := k.Try(kt.Values(kt.I32(kt.S(1), n))...)
				if err != nil {
					t.Fatal(err)
				}
				at := []int{50000, n - 1}
				if run == 1 {
					at[0] = 0
				}
				for i, place := range at {
					if got := kt.Element(out[0].Tensor, place).(float64); math.Abs(got-want[i]) > c.tolerance*max(1, math.Abs(want[i])) {
						t.Errorf("run %d: element %d is %v, want %v", run, place, got, want[i])
					}
				}
				out[0].Release()
			}
		})
	}
}

// TestRandomSeeds checks that without seeds no two kernels draw the same numbers.
func TestRandomSeeds(t *testing.T) {
	d := kt.NewDevice(t)
	op := kt.Op{Type: "RandomUniform", Attrs: kt.Attrs{"dtype": tensor.Float64, "seed": 0, "seed2": 0}, Outputs: 1}
	a, b := d.Run(t, op, kt.I32(kt.S(1), 4)), d.Run(t, op, kt.I32(kt.S(1), 4))
	defer a[0].Release()
	defer b[0].Release()
	if kt.Diff(a[0].Tensor, b[0].Tensor, 0) == "" {
		t.Error("two kernels without seeds drew the same numbers")
	}
}

// TestLargeConvolution compares a convolution of several tiles, and its gradients, with loops.
func TestLargeConvolution(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const batch, size, in, out, k = 3, 40, 16, 8, 5
	x, f, dy := uniform(r, batch, size, size, in), uniform(r, k, k, in, out), uniform(r, batch, size, size, out)
	y, dx, df := make([]float64, batch*size*size*out), make([]float64, x.Len()), make([]float64, f.Len())
	xv, fv, gv := tensor.Of[float32](x), tensor.Of[float32](f), tensor.Of[float32](dy)
	for b := range batch {
		for row := range size {
			for col := range size {
				at := ((b*size+row)*size + col) * out
				for ky := range k {
					for kx := range k {
						py, px := row+ky-k/2, col+kx-k/2
						if py < 0 || py >= size || px < 0 || px >= size {
							continue
						}
						for c := range in {
							xi, fi := ((b*size+py)*size+px)*in+c, ((ky*k+kx)*in+c)*out
							for o := range out {
								y[at+o] += float64(xv[xi]) * float64(fv[fi+o])
								dx[xi] += float64(gv[at+o]) * float64(fv[fi+o])
								df[fi+o] += float64(gv[at+o]) * float64(xv[xi])
							}
						}
					}
				}
			}
		}
	}
	like := func(t *tensor.Tensor, v []float64) []*tensor.Tensor {
		w := zeros(tensor.Float32, t.Shape()...)
		for i, e := range v {
			tensor.Of[float32](w)[i] = float32(e)
		}
		return []*tensor.Tensor{w}
	}
	sizes := func(t *tensor.Tensor) *tensor.Tensor {
		s := zeros(tensor.Int32, 4)
		for i, d := range t.Shape() {
			tensor.Of[int32](s)[i] = int32(d)
		}
		return s
	}
	attrs := kt.Attrs{"T": tensor.Float32, "strides": []int64{1, 1, 1, 1}, "dilations": []int64{1, 1, 1, 1}, "padding": "SAME", "data_format": "NHWC"}
	kt.Check(t,
		kt.Case{Op: "Conv2D", Attrs: attrs, Inputs: []any{x, f}, Want: like(dy, y), Tolerance: 1e-4},
		kt.Case{Op: "Conv2DBackpropInput", Attrs: attrs, Inputs: []any{sizes(x), f, dy}, Want: like(x, dx), Tolerance: 1e-4},
		kt.Case{Op: "Conv2DBackpropFilter", Attrs: attrs, Inputs: []any{x, sizes(f), dy}, Want: like(f, df), Tolerance: 1e-3})
}

// TestChannelsFirst checks that images with channels first yield the same results, transposed.
func TestChannelsFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	d := kt.NewDevice(t)
	for _, c := range []struct {
		op             string
		image, filter  []int64
		stride, spread int64
		padding        string
	}{
		{"Conv2D", []int64{2, 5, 6, 3}, []int64{3, 3, 3, 4}, 2, 1, "SAME"},
		{"Conv2D", []int64{2, 5, 7, 9}, []int64{1, 1, 9, 5}, 1, 1, "VALID"},
		{"Conv2D", []int64{1, 8, 8, 6}, []int64{1, 1, 6, 40}, 3, 1, "SAME"},
		{"Conv2D", []int64{3, 40, 37, 33}, []int64{3, 3, 33, 35}, 1, 1, "SAME"},
		{"Conv2D", []int64{2, 31, 64, 16}, []int64{5, 4, 16, 64}, 2, 1, "VALID"},
		{"Conv2D", []int64{2, 24, 23, 20}, []int64{3, 2, 20, 17}, 1, 2, "SAME"},
		{"Conv2D", []int64{1, 9, 9, 8}, []int64{2, 2, 8, 16}, 1, 1, "EXPLICIT"},
		{"Conv2D", []int64{0, 9, 9, 8}, []int64{2, 2, 8, 16}, 1, 1, "SAME"},
		{"MaxPool", []int64{2, 5, 6, 3}, nil, 2, 1, "SAME"},
		{"AvgPool", []int64{2, 5, 6, 3}, nil, 2, 1, "SAME"},
		{"DepthwiseConv2dNative", []int64{2, 5, 6, 3}, []int64{3, 3, 3, 4}, 2, 1, "SAME"},
	} {
		x := uniform(r, c.image...)
		last, first := []any{x.Retain()}, []any{channelsFirst(x)}
		if c.filter != nil {
			f := uniform(r, c.filter...)
			last, first = append(last, f.Retain()), append(first, f.Retain())
		}
		op := func(format string, dims func(rows, columns int64) []int64) kt.Op {
			attrs := kt.Attrs{"T": tensor.Float32, "strides": dims(c.stride, c.stride), "dilations": dims(c.spread, c.spread), "ksize": dims(3, 2),
				"padding": c.padding, "data_format": format}
			if c.padding == "EXPLICIT" {
				pads := make([]int64, 8)
				at := 2 * strings.Index(format, "H")
				copy(pads[at:], []int64{1, 0, 2, 3})
				attrs["explicit_paddings"] = pads
			}
			return kt.Op{Type: c.op, Outputs: 1, Attrs: attrs}
		}
		a := d.Run(t, op("NHWC", func(rows, columns int64) []int64 { return []int64{1, rows, columns, 1} }), last...)
		b := d.Run(t, op("NCHW", func(rows, columns int64) []int64 { return []int64{1, 1, rows, columns} }), first...)
		if diff := kt.Diff(b[0].Tensor, channelsFirst(a[0].Tensor), 1e-5); diff != "" {
			t.Errorf("%s of %v, filter %v, stride %d, dilation %d, %s: %s", c.op, c.image, c.filter, c.stride, c.spread, c.padding, diff)
		}
		a[0].Release()
		b[0].Release()
	}
}

// channelsFirst moves the channels of images before their rows.
func channelsFirst(t *tensor.Tensor) *tensor.Tensor {
	s := t.Shape()
	m := zeros(tensor.Float32, s[0], s[3], s[1], s[2])
	for i, v := range tensor.Of[float32](t) {
		c, rest := i%t.Dim(3), i/t.Dim(3)
		n, pixel := rest/(t.Dim(1)*t.Dim(2)), rest%(t.Dim(1)*t.Dim(2))
		tensor.Of[float32](m)[(n*t.Dim(3)+c)*t.Dim(1)*t.Dim(2)+pixel] = v
	}
	return m
}
