package main

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

// elementwise measures operations that are bound by the card's memory.
func elementwise(ctx context.Context, m *machine) (err error) {
	b, err := m.serve(ctx)
	if err != nil {
		return err
	}
	defer b.end(&err)
	sizes := pick(m, []int32{1 << 20, 1 << 26}, []int32{1 << 10})
	head := []string{"operation"}
	for _, n := range sizes {
		head = append(head, fmt.Sprintf("%d elements, GB/s", n), "of the peak")
	}
	m.head(head...)
	for _, c := range []struct {
		name  string
		moves float64 // number of float32 arrays that it reads and writes
		next  func(s *op.Scope, y, x op.Output) op.Output
	}{
		{"AddV2", 3, func(s *op.Scope, y, x op.Output) op.Output { return op.AddV2(s, y, x) }},
		{"Relu", 2, func(s *op.Scope, y, _ op.Output) op.Output { return op.Relu(s, y) }},
		{"Tanh", 2, func(s *op.Scope, y, _ op.Output) op.Output { return op.Tanh(s, y) }},
		{"AddV2 of a row", 2, func(s *op.Scope, y, x op.Output) op.Output {
			return op.AddV2(s, y, op.Slice(s, x, op.Const(s, []int32{0, 0}), op.Const(s, []int32{1, -1})))
		}},
		{"Transpose", 2, func(s *op.Scope, y, _ op.Output) op.Output { return op.Transpose(s, y, op.Const(s, []int32{1, 0})) }},
		{"Softmax", 2, func(s *op.Scope, y, _ op.Output) op.Output { return op.Softmax(s, y) }},
		{"Cast to float16 and back", 3, func(s *op.Scope, y, _ op.Output) op.Output {
			return op.Cast(s, op.Cast(s, y, tensor.Float16), tensor.Float32)
		}},
		{"Sum of rows", 1, nil},
		{"Sum of columns", 1, nil},
	} {
		cells := []string{c.name}
		for _, n := range sizes {
			width := int32(pick(m, 1024, 32))
			const length = 8
			took, err := b.step(ctx, func(s *op.Scope) (targets []*op.Operation) {
				x := random(s, tensor.Float32, 1, n/width, width)
				y := x
				for range length {
					switch {
					case c.next != nil:
						y = c.next(s, y, x)
					case c.name == "Sum of rows":
						targets = append(targets, op.Sum(s, x, op.Const(s, []int32{1})).Op)
					default:
						targets = append(targets, op.Sum(s, x, op.Const(s, []int32{0})).Op)
					}
				}
				if c.next != nil {
					targets = append(targets, y.Op)
				}
				return targets
			})
			if m.failed(fmt.Sprintf("%s of %d elements", c.name, n), err) {
				cells = append(cells, "failed", "")
				continue
			}
			speed := rate(c.moves*4*float64(n)*length, took)
			cells = append(cells, giga(speed), of(speed, m.bandwidth()))
		}
		m.row(cells...)
	}
	return nil
}

// layer is a convolution of images of size by size.
type layer struct {
	name                               string
	batch, size, in, out, side, stride int32
}

// convolutions measures layers and their gradients.
func convolutions(ctx context.Context, m *machine) (err error) {
	b, err := m.serve(ctx)
	if err != nil {
		return err
	}
	defer b.end(&err)
	m.head("layer, batch of 32", "type", "forward, TFLOP/s", "of the peak", "gradient of the images", "of the peak", "gradient of the filter", "of the peak")
	layers := pick(m, []layer{
		{"7x7, 3 to 64, stride 2, 224x224", 32, 224, 3, 64, 7, 2},
		{"3x3, 64 to 64, 56x56", 32, 56, 64, 64, 3, 1},
		{"1x1, 64 to 256, 56x56", 32, 56, 64, 256, 1, 1},
		{"3x3, 128 to 128, 28x28", 32, 28, 128, 128, 3, 1},
		{"3x3, 256 to 256, 14x14", 32, 14, 256, 256, 3, 1},
		{"1x1, 1024 to 256, 14x14", 32, 14, 1024, 256, 1, 1},
		{"3x3, 512 to 512, 7x7", 32, 7, 512, 512, 3, 1},
	}, []layer{{"3x3, 8 to 8, 6x6", 1, 6, 8, 8, 3, 1}})
	for _, l := range layers {
		for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float16} {
			b.layer(ctx, l, dtype)
		}
	}
	return nil
}

// layer measures one layer, in each direction.
func (b *bench) layer(ctx context.Context, l layer, dtype tensor.DType) {
	m := b.machine
	after := (l.size + l.stride - 1) / l.stride
	work := 2 * float64(l.batch) * float64(after*after) * float64(l.side*l.side) * float64(l.in) * float64(l.out)
	strides := []int64{1, int64(l.stride), int64(l.stride), 1}
	length := pick(m, 8, 1)
	cells := []string{l.name, dtype.String()}
	for _, direction := range []string{"forward", "images", "filter"} {
		took, err := b.step(ctx, func(s *op.Scope) (targets []*op.Operation) {
			images, filter := []int32{l.batch, l.size, l.size, l.in}, []int32{l.side, l.side, l.in, l.out}
			x, w := random(s, dtype, 1, images...), random(s, dtype, 0.1, filter...)
			dy := random(s, dtype, 1, l.batch, after, after, l.out)
			for range length {
				var y op.Output
				switch direction {
				case "forward":
					y = op.Conv2D(s, x, w, strides, "SAME")
				case "images":
					y = op.Conv2DBackpropInput(s, op.Const(s, images), w, dy, strides, "SAME")
				case "filter":
					y = op.Conv2DBackpropFilter(s, x, op.Const(s, filter), dy, strides, "SAME")
				}
				targets = append(targets, y.Op)
			}
			return targets
		})
		if m.failed(fmt.Sprintf("%s of %v, %s", l.name, dtype, direction), err) {
			cells = append(cells, "failed", "")
			continue
		}
		speed := rate(work*float64(length), took)
		cells = append(cells, tera(speed), of(speed, m.peak(unitOf(dtype, true))))
	}
	m.row(cells...)
}
