package main

import (
	"context"
	"fmt"
	"math"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/tensor"
)

// The variants of products.
const (
	cublas = "cuBLAS"
	own    = "Troupe's"
)

var matrixTypes = []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Float64}

func products(ctx context.Context, m *machine) error {
	return m.products(ctx, matrixTypes, true)
}

func exactProducts(ctx context.Context, m *machine) error {
	return m.products(ctx, []tensor.DType{tensor.Float32}, false)
}

// products measures matrix products of the given types; round reports whether float32 may be rounded to TF32.
func (m *machine) products(ctx context.Context, types []tensor.DType, round bool) (err error) {
	if there, err := m.ready(); !there || err != nil {
		return err
	}
	b, err := m.serve(ctx)
	if err != nil {
		return err
	}
	defer b.end(&err)
	m.head("product", m.variant+", TFLOP/s", "of the peak")
	for _, dtype := range types {
		for _, n := range pick(m, []int{512, 1024, 2048, 4096, 8192}, []int{16, 32}) {
			name := fmt.Sprintf("%v %d", dtype, n)
			// About as much work for each size.
			length := min(max(1<<36/(n*n*n), 4), 64)
			if m.small {
				length = 2
			}
			took, err := b.step(ctx, func(s *op.Scope) []*op.Operation {
				w := random(s, dtype, math.Sqrt(3/float64(n)), int32(n), int32(n))
				y := w
				for range length {
					y = op.MatMul(s, y, w)
				}
				return []*op.Operation{y.Op}
			})
			if m.failed(name, err) {
				continue
			}
			speed := rate(2*math.Pow(float64(n), 3)*float64(length), took)
			m.row(name, tera(speed), of(speed, m.peak(unitOf(dtype, round))))
		}
	}
	return nil
}

// ready reports whether the variant of products can be measured, and says why not.
func (m *machine) ready() (bool, error) {
	if m.variant == own {
		return true, nil
	}
	there, err := m.library()
	if err == nil && !there {
		m.text("cuBLAS is not installed, so only Troupe's functions were measured.")
	}
	return there, err
}

// accuracy compares products with float64 products on the CPU.
func accuracy(ctx context.Context, m *machine) (err error) {
	if there, err := m.ready(); !there || err != nil {
		return err
	}
	b, err := m.serve(ctx)
	if err != nil {
		return err
	}
	defer b.end(&err)
	m.head("product", m.variant)
	n := int32(pick(m, 1000, 20))
	for _, dtype := range matrixTypes {
		for _, transposed := range []bool{false, true} {
			name := fmt.Sprintf("%v %d", dtype, n)
			if transposed {
				name += ", both transposed"
			}
			worst, err := b.worst(ctx, dtype, n, transposed)
			if m.failed(name, err) {
				continue
			}
			m.row(name, digits(worst))
			if limit := tolerance[dtype]; !(worst <= limit) {
				m.failed(name, fmt.Errorf("an error of %g is more than %g", worst, limit))
			}
		}
	}
	return nil
}

// tolerance is the largest allowed error of a product, relative to the largest result: some roundings of its type, or of TF32.
var tolerance = map[tensor.DType]float64{tensor.Float64: 1e-13, tensor.Float32: 2e-3, tensor.Float16: 2e-3, tensor.BFloat16: 1e-2}

// worst returns the largest error of a product on the card, relative to the largest result.
func (b *bench) worst(ctx context.Context, dtype tensor.DType, n int32, transposed bool) (worst float64, err error) {
	root := op.NewScope()
	card, host := root.WithDevice(onGPU), root.WithDevice("/device:CPU:0")
	x, w := random(card, dtype, 1, n, n), random(card, dtype, 1, n, n)
	wide := func(v op.Output) op.Output { return op.Cast(host, v, tensor.Float64) }
	transpose := []attr.Attr{attr.TransposeA(transposed), attr.TransposeB(transposed)}
	right := op.MatMul(host, wide(x), wide(w), transpose...)
	wrong := op.Abs(host, op.Sub(host, wide(op.MatMul(card, x, w, transpose...)), right))
	all := op.Const(host, []int32{0, 1})
	relative := op.Div(host, op.Max(host, wrong, all), op.Max(host, op.Abs(host, right), all))
	session, end, err := b.session(ctx, root)
	if err != nil {
		return 0, err
	}
	defer end(&err)
	out, err := session.Eval(ctx, nil, relative)
	if err != nil {
		return 0, err
	}
	defer out[0].Release()
	return tensor.Of[float64](out[0])[0], nil
}
