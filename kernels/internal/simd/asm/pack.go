package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// packAhead is how many rows before their turn pack asks for them.
const packAhead = 6

// pack copies panels of two vectors that lie side by side in the rows of a matrix: of k rows lds apart, to where a panel's
// rows follow one another and the next panel begins step further. Strides are in bytes.
func pack(s isa) {
	s.text("pack", "func(k int, src *float32, lds int, dst *float32, panels int, step int)")
	k, src, lds, dst, panels, step := arg("k"), arg("src"), arg("lds"), arg("dst"), arg("panels"), arg("step")
	from, to, left, ahead := GP64(), GP64(), GP64(), GP64()
	IMUL3Q(Imm(packAhead), lds, ahead)
	low, high := s.new(), s.new()
	Label("row")
	MOVQ(src, from)
	MOVQ(dst, to)
	MOVQ(panels, left)
	Label("panel")
	for offset := 0; offset < 2*s.size; offset += 64 {
		PREFETCHT0(Mem{Base: from, Index: ahead, Scale: 1, Disp: offset})
	}
	VMOVUPS(Mem{Base: from}, low)
	VMOVUPS(Mem{Base: from, Disp: s.size}, high)
	VMOVUPS(low, Mem{Base: to})
	VMOVUPS(high, Mem{Base: to, Disp: s.size})
	ADDQ(U32(uint32(2*s.size)), from)
	ADDQ(step, to)
	DECQ(left)
	JNZ(LabelRef("panel"))
	ADDQ(lds, src)
	ADDQ(U32(uint32(2*s.size)), dst)
	DECQ(k)
	JNZ(LabelRef("row"))
	end()
}

// packNarrow writes the function that copies k rows of cols elements, at most two vectors, into a panel, with zeros up to
// its width.
func packNarrow(s isa) {
	s.text("packNarrow", "func(k int, src *float32, lds int, dst *float32, cols int)")
	k, src, lds, dst := arg("k"), arg("src"), arg("lds"), arg("dst")
	low, high := s.new(), s.new()
	load, _ := tile{s, float32s, 1, 2, false}.columns(arg("cols"), []vec{s.new(), s.new()})
	Label("row")
	load(src, 0, low)
	load(src, 1, high)
	VMOVUPS(low, Mem{Base: dst})
	VMOVUPS(high, Mem{Base: dst, Disp: s.size})
	ADDQ(lds, src)
	ADDQ(U32(uint32(2*s.size)), dst)
	DECQ(k)
	JNZ(LabelRef("row"))
	end()
}
