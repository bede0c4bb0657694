//go:build cuda

package all_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// The tables of the CPU's kernels have more exact digits than TF32.
func init() { os.Setenv("NVIDIA_TF32_OVERRIDE", "0") }

// otherCard is an accelerator that claims to be another card, which makes kernels choose other functions. It has no library of matrix
// products.
type otherCard struct {
	kernels.Accelerator
	card kernels.Card
}

func (c otherCard) Card() kernels.Card { return c.card }

// on makes devices report the given compute capability and number of processors, until the test ends.
func on(t *testing.T, compute, processors int) {
	accelerate := kt.Accelerate
	kt.Accelerate = func(t testing.TB, name string, resources *containers.Manager) kernels.Accelerator {
		a := accelerate(t, name, resources)
		card := a.Card()
		card.Compute, card.Processors = compute, processors
		return otherCard{a, card}
	}
	t.Cleanup(func() { kt.Accelerate = accelerate })
}

// eachCard runs body as cards with and without the tensor cores that kernels use, and with few and many processors. Each card has two of
// the types; together they run all functions.
func eachCard(t *testing.T, body func(t *testing.T, types []tensor.DType)) {
	t.Setenv("NVIDIA_TF32_OVERRIDE", "1")
	for _, c := range []struct {
		compute, processors int
		types               []tensor.DType
	}{
		{70, 1, []tensor.DType{tensor.Float32, tensor.Float64}},
		{70, 100, []tensor.DType{tensor.Float16, tensor.BFloat16}},
		{90, 1, []tensor.DType{tensor.Float32, tensor.BFloat16}},
		{90, 100, []tensor.DType{tensor.Float32, tensor.Float16}},
	} {
		t.Run(fmt.Sprintf("sm_%d x%d", c.compute, c.processors), func(t *testing.T) {
			on(t, c.compute, c.processors)
			body(t, c.types)
		})
	}
}

// agree compares an op's results with the CPU's.
func agree(t *testing.T, op kt.Op, tolerance float64, inputs ...*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	run := func(t *testing.T) (out []*tensor.Tensor) {
		var values []any
		for _, in := range inputs {
			values = append(values, in.Retain())
		}
		for _, v := range kt.NewDevice(t).Run(t, op, values...) {
			kept := zeros(v.Tensor.DType(), v.Tensor.Shape()...)
			copy(kept.Data(), v.Tensor.Data())
			v.Release()
			out = append(out, kept)
		}
		return out
	}
	var want []*tensor.Tensor
	t.Run("CPU", func(t *testing.T) {
		kt.CPUOnly(t)
		want = run(t)
	})
	got := run(t)
	for i := range want {
		if diff := kt.Diff(got[i], want[i], tolerance); diff != "" {
			t.Errorf("%s %v: output %d %s", op.Type, op.Attrs, i, diff)
		}
	}
	return got
}

func TestProductsOnCards(t *testing.T) { eachCard(t, checkProducts) }

func TestBatchesOnCards(t *testing.T) { eachCard(t, checkBatches) }

// TestTF32 checks that floats are rounded to TF32 on cards that support it, unless it is forbidden.
func TestTF32(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	a, b := uniform(r, 40, 300), uniform(r, 300, 70)
	op := kt.Op{Type: "MatMul", Attrs: kt.Attrs{"T": tensor.Float32, "transpose_a": false, "transpose_b": false}}
	on(t, 90, 100)
	exact := agree(t, op, 1e-5, a, b)
	t.Setenv("NVIDIA_TF32_OVERRIDE", "1")
	rounded := agree(t, op, 1e-2, a, b)
	if kt.Diff(rounded[0], exact[0], 1e-5) == "" {
		t.Error("nothing was rounded to TF32")
	}
}

// A convCase is a convolution of images of height by width by in, with a square filter of size.
type convCase struct {
	batch, height, width, in, out, size, stride, dilation int64
	groups                                                int64
	padding                                               string
}

var convCases = []convCase{
	{1, 9, 11, 3, 5, 3, 1, 1, 1, "SAME"},
	{2, 13, 12, 16, 24, 3, 2, 1, 1, "SAME"},
	{2, 12, 12, 16, 72, 3, 1, 2, 1, "VALID"},
	{1, 14, 13, 8, 8, 5, 3, 1, 1, "SAME"},
	{2, 8, 8, 16, 32, 3, 1, 1, 2, "SAME"},
	{1, 17, 16, 8, 8, 3, 2, 3, 1, "VALID"},
	{1, 16, 17, 8, 4, 3, 4, 2, 1, "VALID"},
	{1, 10, 9, 8, 16, 1, 2, 1, 1, "SAME"},
	{1, 10, 9, 8, 16, 1, 1, 1, 1, "SAME"},
	{4, 16, 16, 8, 8, 3, 1, 1, 1, "SAME"},
	{1, 6, 6, 64, 16, 3, 1, 1, 1, "SAME"},
}

// attrs returns the attributes and the sizes of the result.
func (c convCase) attrs(dtype tensor.DType) (a kt.Attrs, rows, columns int64) {
	a = kt.Attrs{"T": dtype, "strides": []int64{1, c.stride, c.stride, 1}, "dilations": []int64{1, c.dilation, c.dilation, 1}, "padding": c.padding, "data_format": "NHWC"}
	over := func(n int64) int64 {
		if c.padding == "SAME" {
			return (n + c.stride - 1) / c.stride
		}
		return (n - (c.size-1)*c.dilation - 1 + c.stride) / c.stride
	}
	return a, over(c.height), over(c.width)
}

func TestConvolutionsOnCards(t *testing.T) {
	eachCard(t, func(t *testing.T, types []tensor.DType) {
		r := rand.New(rand.NewPCG(17, 18))
		for _, dtype := range types {
			for _, c := range convCases {
				attrs, rows, columns := c.attrs(dtype)
				image, filter := whole(r, dtype, c.batch, c.height, c.width, c.in), whole(r, dtype, c.size, c.size, c.in/c.groups, c.out)
				grad := whole(r, dtype, c.batch, rows, columns, c.out)
				agree(t, kt.Op{Type: "Conv2D", Attrs: attrs}, 0, image, filter)
				agree(t, kt.Op{Type: "Conv2DBackpropInput", Attrs: attrs}, 0, sizes(image), filter, grad)
				agree(t, kt.Op{Type: "Conv2DBackpropFilter", Attrs: attrs}, 0, image, sizes(filter), grad)
			}
		}
	})
}

func TestDepthwiseOnGPU(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	on(t, 90, 100)
	for _, dtype := range denseTypes {
		for _, c := range []convCase{{2, 20, 21, 5, 2, 3, 1, 1, 0, "SAME"}, {2, 30, 29, 40, 1, 3, 2, 1, 0, "VALID"}, {1, 15, 15, 3, 3, 3, 1, 2, 0, "SAME"}} {
			attrs, rows, columns := c.attrs(dtype)
			image, filter, grad := whole(r, dtype, c.batch, c.height, c.width, c.in), whole(r, dtype, c.size, c.size, c.in, c.out), whole(r, dtype, c.batch, rows, columns, c.in*c.out)
			agree(t, kt.Op{Type: "DepthwiseConv2dNative", Attrs: attrs}, 0, image, filter)
			agree(t, kt.Op{Type: "DepthwiseConv2dNativeBackpropInput", Attrs: attrs}, 0, sizes(image), filter, grad)
			agree(t, kt.Op{Type: "DepthwiseConv2dNativeBackpropFilter", Attrs: attrs}, 0, image, sizes(filter), grad)
		}
	}
}

// sizes returns a tensor's shape as an input.
func sizes(t *tensor.Tensor) *tensor.Tensor {
	var dims []int32
	for _, d := range t.Shape() {
		dims = append(dims, int32(d))
	}
	return kt.I32(kt.S(int64(len(dims))), dims...)
}

// TestPoolingOnGPU includes ties, where the gradient must go to the first, in both image layouts.
func TestPoolingOnGPU(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, dtype := range denseTypes {
		for _, format := range []string{"NHWC", "NCHW"} {
			for _, c := range []convCase{{2, 13, 11, 5, 5, 3, 2, 1, 0, "SAME"}, {1, 12, 12, 3, 3, 2, 2, 1, 0, "VALID"}, {1, 9, 9, 4, 4, 4, 1, 1, 0, "SAME"}, {1, 9, 10, 4, 4, 2, 3, 1, 0, "VALID"}} {
				_, rows, columns := c.attrs(dtype)
				dims := func(h, w, depth int64) []int64 {
					if format == "NCHW" {
						return []int64{c.batch, depth, h, w}
					}
					return []int64{c.batch, h, w, depth}
				}
				square := func(n int64) []int64 { return dims(n, n, 1) }
				window, strides := square(c.size), square(c.stride)
				window[0], strides[0] = 1, 1
				attrs := kt.Attrs{"T": dtype, "ksize": window, "strides": strides, "padding": c.padding, "data_format": format}
				image, grad := whole(r, dtype, dims(c.height, c.width, c.in)...), whole(r, dtype, dims(rows, columns, c.in)...)
				result := agree(t, kt.Op{Type: "MaxPool", Attrs: attrs}, 0, image)[0]
				agree(t, kt.Op{Type: "AvgPool", Attrs: attrs}, 1e-6, image)
				tolerance := map[tensor.DType]float64{tensor.Float16: 4e-3, tensor.BFloat16: 3e-2}[dtype] // the CPU adds in another order
				agree(t, kt.Op{Type: "MaxPoolGrad", Attrs: attrs}, 0, image, result, grad)
				agree(t, kt.Op{Type: "AvgPoolGrad", Attrs: attrs}, max(1e-6, tolerance), sizes(image), grad)
				in := kt.Attrs{"T": dtype, "padding": c.padding, "data_format": format}
				agree(t, kt.Op{Type: "MaxPoolGradV2", Attrs: in}, 0, image, result, grad, narrow32(window), narrow32(strides))
			}
		}
	}
}

func narrow32(list []int64) *tensor.Tensor {
	narrow := make([]int32, len(list))
	for i, v := range list {
		narrow[i] = int32(v)
	}
	return kt.I32(kt.S(int64(len(list))), narrow...)
}

// TestReductionsToChannels uses more than one block for each channel.
func TestReductionsToChannels(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for _, processors := range []int{1, 100} {
		t.Run(fmt.Sprint(processors), func(t *testing.T) {
			on(t, 90, processors)
			for _, format := range []string{"NHWC", "NCHW"} {
				for _, dims := range [][]int64{{4, 30, 31, 5}, {2, 5, 40, 33}, {1, 3, 2, 70}} {
					channels := dims[3]
					if format == "NCHW" {
						channels = dims[1]
					}
					for _, dtype := range denseTypes {
						agree(t, kt.Op{Type: "BiasAddGrad", Attrs: kt.Attrs{"T": dtype, "data_format": format}}, 0, whole(r, dtype, dims...))
					}
					for _, training := range []bool{false, true} {
						x, dy := uniform(r, dims...), uniform(r, dims...)
						for i := range x.Len() {
							tensor.Of[float32](x)[i] += 50 // far from zero, where digits are easily lost
						}
						scale, offset, mean, variance := uniform(r, channels), uniform(r, channels), uniform(r, channels), uniform(r, channels)
						for i := range variance.Len() {
							tensor.Of[float32](variance)[i] += 2
							tensor.Of[float32](mean)[i] += 50
						}
						attrs := kt.Attrs{"T": tensor.Float32, "U": tensor.Float32, "epsilon": float32(1e-3), "is_training": training, "data_format": format}
						agree(t, kt.Op{Type: "FusedBatchNormGradV3", Attrs: attrs}, 1e-3, dy, x, scale, mean, variance, offset)
						attrs["exponential_avg_factor"] = float32(0.5)
						agree(t, kt.Op{Type: "FusedBatchNormV3", Attrs: attrs}, 1e-4, x, scale, offset, mean, variance)
					}
				}
			}
		})
	}
}

// volumeCases are convolutions over volumes whose planes are as in a convCase.
var volumeCases = []struct {
	convCase
	planes, deep, along, apart int64 // planes, of the filter, stride and dilation over them
}{
	{convCase{1, 6, 7, 3, 5, 3, 1, 1, 1, "SAME"}, 5, 3, 1, 1},
	{convCase{2, 5, 6, 8, 16, 3, 2, 1, 1, "SAME"}, 6, 2, 2, 1},
	{convCase{1, 7, 6, 8, 8, 2, 1, 2, 1, "VALID"}, 7, 3, 1, 2},
	{convCase{1, 6, 6, 16, 8, 3, 3, 1, 2, "VALID"}, 5, 2, 3, 1},
	{convCase{2, 4, 5, 8, 72, 1, 1, 1, 1, "SAME"}, 3, 1, 1, 1},
	{convCase{1, 6, 6, 64, 8, 3, 1, 1, 1, "SAME"}, 4, 3, 1, 1},
}

func TestVolumesOnCards(t *testing.T) {
	eachCard(t, func(t *testing.T, types []tensor.DType) {
		r := rand.New(rand.NewPCG(25, 26))
		for _, dtype := range types {
			for _, format := range []string{"NDHWC", "NCDHW"} {
				for _, c := range volumeCases {
					plane := convCase{height: c.planes, size: c.deep, stride: c.along, dilation: c.apart, padding: c.padding}
					_, planes, _ := plane.attrs(dtype)
					_, rows, columns := c.attrs(dtype)
					order := func(n, d, h, w, channels int64) []int64 {
						if format == "NCDHW" {
							return []int64{n, channels, d, h, w}
						}
						return []int64{n, d, h, w, channels}
					}
					attrs := kt.Attrs{"T": dtype, "strides": order(1, c.along, c.stride, c.stride, 1), "dilations": order(1, c.apart, c.dilation, c.dilation, 1),
						"padding": c.padding, "data_format": format}
					image := whole(r, dtype, order(c.batch, c.planes, c.height, c.width, c.in)...)
					filter := whole(r, dtype, c.deep, c.size, c.size, c.in/c.groups, c.out)
					grad := whole(r, dtype, order(c.batch, planes, rows, columns, c.out)...)
					tolerance := map[tensor.DType]float64{tensor.Float16: 4e-3, tensor.BFloat16: 3e-2}[dtype] // the CPU rounds between planes
					agree(t, kt.Op{Type: "Conv3D", Attrs: attrs}, tolerance, image, filter)
					agree(t, kt.Op{Type: "Conv3DBackpropInputV2", Attrs: attrs}, tolerance, sizes(image), filter, grad)
					agree(t, kt.Op{Type: "Conv3DBackpropFilterV2", Attrs: attrs}, tolerance, image, sizes(filter), grad)
					if format == "NDHWC" {
						first := kt.Attrs{"T": dtype, "strides": attrs["strides"], "dilations": attrs["dilations"], "padding": c.padding}
						agree(t, kt.Op{Type: "Conv3DBackpropInput", Attrs: first}, tolerance, image, filter, grad)
						agree(t, kt.Op{Type: "Conv3DBackpropFilter", Attrs: first}, tolerance, image, filter, grad)
					}
				}
			}
		}
	})
}

// TestArgmaxPoolingOnGPU includes ties, of which the first counts, and positions in all images.
func TestArgmaxPoolingOnGPU(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	for _, dtype := range denseTypes {
		for _, index := range []tensor.DType{tensor.Int32, tensor.Int64} {
			for _, batches := range []bool{false, true} {
				for _, c := range []convCase{{2, 13, 11, 5, 5, 3, 2, 1, 0, "SAME"}, {3, 9, 10, 4, 4, 2, 3, 1, 0, "VALID"}} {
					_, rows, columns := c.attrs(dtype)
					attrs := kt.Attrs{"T": dtype, "Targmax": index, "ksize": []int64{1, c.size, c.size, 1}, "strides": []int64{1, c.stride, c.stride, 1},
						"padding": c.padding, "include_batch_in_index": batches}
					image := whole(r, dtype, c.batch, c.height, c.width, c.in)
					places := agree(t, kt.Op{Type: "MaxPoolWithArgmax", Attrs: attrs}, 0, image)[1]
					if index == tensor.Int64 {
						grad := whole(r, dtype, c.batch, rows, columns, c.in)
						agree(t, kt.Op{Type: "MaxPoolGradWithArgmax", Attrs: attrs}, 0, image, grad, places)
					}
				}
			}
		}
	}
}

func TestPatchesOnGPU(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 30))
	for _, dtype := range []tensor.DType{tensor.Uint8, tensor.Float16, tensor.Float32, tensor.Int32, tensor.Int64, tensor.Complex128} {
		for _, padding := range []string{"SAME", "VALID"} {
			for _, channels := range []int64{1, 3, 8} {
				attrs := kt.Attrs{"T": dtype, "ksizes": []int64{1, 3, 2, 1}, "strides": []int64{1, 2, 3, 1}, "rates": []int64{1, 2, 1, 1}, "padding": padding}
				image := zeros(dtype, 2, 9, 8, channels)
				for i := range image.Data() {
					image.Data()[i] = byte(r.IntN(100))
				}
				agree(t, kt.Op{Type: "ExtractImagePatches", Attrs: attrs}, 0, image)
			}
		}
	}
}

// TestWhereOnGPU includes signed zeros, no element, every element, and more elements than one block counts.
func TestWhereOnGPU(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for _, dtype := range []tensor.DType{tensor.Bool, tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Uint32, tensor.Int64, tensor.Uint64,
		tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64, tensor.Complex64, tensor.Complex128} {
		for _, dims := range [][]int64{{5}, {0, 3}, {3, 4, 5}, {70, 11}, {1, 2, 1, 2, 3, 1, 2, 1}} {
			for _, share := range []int{0, 3, 10} { // tenths of the elements
				x := zeros(dtype, dims...)
				size, data := dtype.Size(), x.Data()
				for i := range x.Len() {
					switch set := r.IntN(10) < share; {
					case set && dtype == tensor.Bool:
						data[i] = 1
					case set:
						data[i*size+r.IntN(size)/2] = 1
					case signed[dtype] > 0:
						data[i*size+signed[dtype]-1] = byte(r.IntN(2) << 7)
					}
				}
				agree(t, kt.Op{Type: "Where", Attrs: kt.Attrs{"T": dtype}}, 0, x)
			}
		}
	}
	large := zeros(tensor.Bool, 300, 2000)
	for i := range large.Data() {
		large.Data()[i] = byte(r.IntN(2))
	}
	agree(t, kt.Op{Type: "Where", Attrs: kt.Attrs{"T": tensor.Bool}}, 0, large)
}

// signed holds the sizes of floating-point numbers, whose last byte contains the sign.
var signed = map[tensor.DType]int{tensor.Float16: 2, tensor.BFloat16: 2, tensor.Float32: 4, tensor.Float64: 8, tensor.Complex64: 4, tensor.Complex128: 8}
