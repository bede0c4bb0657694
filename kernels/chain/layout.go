package chain

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
)

// layout is a chain's plan for inputs of particular shapes. Most steps of a program have the same shapes.
type layout struct {
	inputs []tensor.Shape
	// alone are the ops whose results are smaller than the chain's; their own kernels compute them. joint are the ops that are computed
	// block by block; it is empty if that is impossible.
	alone, joint []int
	shape        tensor.Shape
	// full are the inputs that have the shape and type of the result.
	full []int
	// rows times width is the result as a matrix; the operands are broadcast to its rows and columns. A worker processes units of unit
	// elements.
	rows, width, unit int
	operands          map[Operand]*stretch
	order             []Operand // the keys of operands, inputs first
}

// stretch describes how an operand that the chain does not compute itself is broadcast to the result's rows and columns.
type stretch struct {
	elem *elementwise.Elem
	// row is the distance in elements between neighbours in a column, column the distance between neighbours in a row.
	row, column int
	index       int // among the layout's operands
}

// scalar reports whether the operand is the same everywhere.
func (s *stretch) scalar() bool { return s.row == 0 && s.column == 0 }

// fits reports whether the layout is for inputs of these shapes.
func (l *layout) fits(inputs []kernels.Value) bool {
	for i, in := range inputs {
		if !in.Tensor.Shape().Equal(l.inputs[i]) {
			return false
		}
	}
	return true
}

// lay returns the layout for inputs.
func (c *Chain) lay(inputs []kernels.Value) *layout {
	l := &layout{inputs: make([]tensor.Shape, len(inputs))}
	for i, in := range inputs {
		l.inputs[i] = slices.Clone(in.Tensor.Shape())
		if in.Tensor.DType() != c.inputs[i].DType {
			return l
		}
	}
	shapes, ok := c.shapes(l.inputs)
	if !ok {
		return l
	}
	l.shape = shapes[len(shapes)-1]
	n, err := l.shape.NumElements()
	if err != nil || n == 0 {
		return l
	}
	var joint []int
	for i, s := range shapes {
		if s.Elements() == int(n) {
			joint = append(joint, i)
		} else {
			l.alone = append(l.alone, i)
		}
	}
	if len(joint) > 1 && c.stretch(l, joint, shapes) {
		l.joint = joint
	}
	return l
}

// shapes returns the shapes of all results; it returns false if an op does not accept its operands.
func (c *Chain) shapes(inputs []tensor.Shape) ([]tensor.Shape, bool) {
	shapes := make([]tensor.Shape, len(c.ops))
	for i, o := range c.ops {
		var in [2]tensor.Shape
		for k, from := range o.Operands {
			in[k] = shapeOf(from, inputs, shapes)
		}
		var ok bool
		if shapes[i], ok = o.Shape(in[0], in[1]); !ok {
			return nil, false
		}
		if _, err := shapes[i].NumElements(); err != nil {
			return nil, false
		}
	}
	return shapes, true
}

func shapeOf(from Operand, inputs, results []tensor.Shape) tensor.Shape {
	if r, ok := from.result(); ok {
		return results[r]
	}
	return inputs[from]
}

// stretch determines how the operands of the joint ops are broadcast. It returns false if that needs more dimensions than rows and columns.
func (c *Chain) stretch(l *layout, joint []int, shapes []tensor.Shape) bool {
	l.operands = map[Operand]*stretch{}
	var of []tensor.Shape
	for _, i := range joint {
		for _, from := range c.ops[i].Operands {
			if r, ok := from.result(); ok && slices.Contains(joint, r) || l.operands[from] != nil {
				continue
			}
			shape := shapeOf(from, l.inputs, shapes)
			l.operands[from] = &stretch{elem: c.ops[i].In, index: len(l.order)}
			l.order, of = append(l.order, from), append(of, shape)
			if _, ok := from.result(); !ok && shape.Equal(l.shape) && c.ops[i].In.DType == c.ops[len(c.ops)-1].Out.DType {
				l.full = append(l.full, int(from))
			}
		}
	}
	w := elementwise.NewWalk(l.shape, of...)
	if len(w.Dims) > 2 {
		return false
	}
	l.rows, l.width = w.Rows(), w.Inner()
	for k, from := range l.order {
		s := l.operands[from]
		s.column = w.InnerStride(k)
		if len(w.Dims) == 2 {
			s.row = w.Strides[k][0]
		}
	}
	l.unit = l.width
	if l.rows == 1 {
		l.unit = element.BlockLen
	}
	return true
}

// units returns the number of units in the result.
func (l *layout) units() int { return (l.rows*l.width + l.unit - 1) / l.unit }
