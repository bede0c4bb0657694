package chain

import (
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
)

// worker holds the blocks that one goroutine computes with.
type worker struct {
	chain *Chain
	// registers are the blocks of results; spreads are the blocks of operands that are spread over a block.
	registers, spreads []unsafe.Pointer
	// base are the starts of the layout's operands; at are the current blocks of the operands.
	base, at []unsafe.Pointer
	// scalar marks operands whose at points to one element that stands for the whole block. filled marks operands whose block in spreads is
	// valid for all blocks.
	scalar, filled []bool
}

func newWorker(c *Chain) *worker {
	most := len(c.inputs) + len(c.ops) // operands
	w := &worker{chain: c, registers: make([]unsafe.Pointer, c.registers), spreads: make([]unsafe.Pointer, most),
		base: make([]unsafe.Pointer, most), at: make([]unsafe.Pointer, most), scalar: make([]bool, most), filled: make([]bool, most)}
	for i := range w.registers {
		w.registers[i] = c.newBlock()
	}
	return w
}

// newBlock allocates a block, aligned for any element.
func (c *Chain) newBlock() unsafe.Pointer {
	return unsafe.Pointer(unsafe.SliceData(make([]complex128, c.blockSize/elementwise.MaxStageElement)))
}

// operandBlock returns the block of operand i of the layout.
func (w *worker) operandBlock(i int) unsafe.Pointer {
	if w.spreads[i] == nil {
		w.spreads[i] = w.chain.newBlock()
	}
	return w.spreads[i]
}

// compute computes units lo to hi of the result.
func (w *worker) compute(l *layout, inputs []kernels.Value, results []*tensor.Tensor, out unsafe.Pointer, lo, hi int) {
	for i, from := range l.order {
		if r, ok := from.result(); ok {
			w.base[i] = element.Elements(results[r])
		} else {
			w.base[i] = element.Elements(inputs[from].Tensor)
		}
		w.filled[i] = false
	}
	defer clear(w.base)
	defer clear(w.at)
	switch {
	case l.rows == 1:
		for first, end := lo*l.unit, min(hi*l.unit, l.width); first < end; first += element.BlockLen {
			w.piece(l, out, 0, first, min(element.BlockLen, end-first))
		}
	case l.width > element.BlockLen/2:
		for row := lo; row < hi; row++ {
			for first := 0; first < l.width; first += element.BlockLen {
				w.piece(l, out, row, first, min(element.BlockLen, l.width-first))
			}
		}
	default:
		for several, row := element.BlockLen/l.width, lo; row < hi; row += several {
			w.several(l, out, row, min(several, hi-row))
		}
	}
}

// piece computes n columns of a row.
func (w *worker) piece(l *layout, out unsafe.Pointer, row, first, n int) {
	for i, from := range l.order {
		s := l.operands[from]
		w.at[i] = s.elem.At(w.base[i], row*s.row+first*s.column)
		if w.scalar[i] = s.column == 0; w.scalar[i] && !s.scalar() {
			w.filled[i] = false
		}
	}
	w.block(l, w.chain.ops[len(w.chain.ops)-1].Out.At(out, row*l.width+first), n)
}

// several computes n short rows at once.
func (w *worker) several(l *layout, out unsafe.Pointer, row, n int) {
	for i, from := range l.order {
		s := l.operands[from]
		w.scalar[i] = s.scalar()
		switch block := w.operandBlock(i); {
		case s.scalar():
			w.at[i] = w.base[i]
		case s.column == 0:
			s.elem.Spread(block, s.elem.At(w.base[i], row*s.row), n, l.width)
			w.at[i] = block
		case s.row == 0:
			for r := 0; r < n && !w.filled[i]; r++ { // the first block has the most rows
				s.elem.Move(s.elem.At(block, r*l.width), w.base[i], l.width)
			}
			w.filled[i] = true
			w.at[i] = block
		default:
			w.at[i] = s.elem.At(w.base[i], row*s.row)
		}
	}
	w.block(l, w.chain.ops[len(w.chain.ops)-1].Out.At(out, row*l.width), n*l.width)
}

// block runs one block of n elements through the joint ops.
func (w *worker) block(l *layout, out unsafe.Pointer, n int) {
	ops := w.chain.ops
	for _, i := range l.joint {
		o := &ops[i]
		dst := out
		if i != len(ops)-1 {
			dst = w.registers[o.register]
		}
		a, scalarA := w.operand(l, o.Operands[0])
		if len(o.Operands) == 1 {
			o.Each(dst, w.spread(l, o.Operands[0], a, scalarA, n), nil, n)
			continue
		}
		b, scalarB := w.operand(l, o.Operands[1])
		switch {
		case scalarB && !scalarA && o.WithScalar != nil:
			o.WithScalar(dst, a, b, n)
		case scalarA && !scalarB && o.ScalarWith != nil:
			o.ScalarWith(dst, b, a, n)
		default:
			o.Each(dst, w.spread(l, o.Operands[0], a, scalarA, n), w.spread(l, o.Operands[1], b, scalarB, n), n)
		}
	}
}

// operand returns the address of an operand's block, or of its single element.
func (w *worker) operand(l *layout, from Operand) (at unsafe.Pointer, scalar bool) {
	if s := l.operands[from]; s != nil {
		return w.at[s.index], w.scalar[s.index]
	}
	r, _ := from.result()
	return w.registers[w.chain.ops[r].register], false
}

// spread returns a block of a single-element operand. It fills a block that is the same for the whole computation only once.
func (w *worker) spread(l *layout, from Operand, at unsafe.Pointer, scalar bool, n int) unsafe.Pointer {
	if !scalar {
		return at
	}
	s := l.operands[from]
	block := w.operandBlock(s.index)
	if !w.filled[s.index] {
		s.elem.Fill(block, at, n) // no later block is longer
		w.filled[s.index] = true
	}
	return block
}
