package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func (s isa) transposeText() {
	s.text("transpose", "func(src *float32, lds int, dst *float32, ldd int)")
}

func (s isa) loadRows() []vec {
	src, lds := arg("src"), arg("lds")
	rows := make([]vec, s.lanes())
	for i := range rows {
		rows[i] = s.new()
		VMOVUPS(Mem{Base: src}, rows[i])
		if i+1 < len(rows) {
			ADDQ(lds, src)
		}
	}
	return rows
}

func (s isa) storeRows(rows []vec) {
	dst, ldd := arg("dst"), arg("ldd")
	for i, r := range rows {
		VMOVUPS(r, Mem{Base: dst})
		if i+1 < len(rows) {
			ADDQ(ldd, dst)
		}
	}
}

// quarters transposes the 4x4 blocks of each group of four rows: afterwards
// lane group l of register 4q+c holds column 4l+c of rows 4q to 4q+3.
func (s isa) quarters(rows []vec) []vec {
	t := make([]vec, len(rows))
	for i := 0; i < len(rows); i += 2 {
		t[i], t[i+1] = s.new(), s.new()
		VUNPCKLPS(rows[i+1], rows[i], t[i])
		VUNPCKHPS(rows[i+1], rows[i], t[i+1])
	}
	u := make([]vec, len(rows))
	for i := 0; i < len(rows); i += 4 {
		for j := range 4 {
			u[i+j] = s.new()
		}
		VUNPCKLPD(t[i+2], t[i], u[i])
		VUNPCKHPD(t[i+2], t[i], u[i+1])
		VUNPCKLPD(t[i+3], t[i+1], u[i+2])
		VUNPCKHPD(t[i+3], t[i+1], u[i+3])
	}
	return u
}

// transpose16 writes dst[j*ldd+i] = src[i*lds+j] for 16 by 16 numbers, with
// strides in bytes.
func transpose16(s isa) {
	s.transposeText()
	u := s.quarters(s.loadRows())
	out := make([]vec, 16)
	for c := range 4 {
		// Gather the four lane groups of registers c, 4+c, 8+c and 12+c.
		even01, odd01, even23, odd23 := s.new(), s.new(), s.new(), s.new()
		VSHUFF32X4(Imm(0x88), u[4+c], u[c], even01)
		VSHUFF32X4(Imm(0xdd), u[4+c], u[c], odd01)
		VSHUFF32X4(Imm(0x88), u[12+c], u[8+c], even23)
		VSHUFF32X4(Imm(0xdd), u[12+c], u[8+c], odd23)
		for l := range 4 {
			out[4*l+c] = s.new()
		}
		VSHUFF32X4(Imm(0x88), even23, even01, out[c])
		VSHUFF32X4(Imm(0xdd), even23, even01, out[8+c])
		VSHUFF32X4(Imm(0x88), odd23, odd01, out[4+c])
		VSHUFF32X4(Imm(0xdd), odd23, odd01, out[12+c])
	}
	s.storeRows(out)
	end()
}

// transpose8 is transpose16 for 8 by 8 numbers.
func transpose8(s isa) {
	s.transposeText()
	u := s.quarters(s.loadRows())
	out := make([]vec, 8)
	for c := range 4 {
		out[c], out[4+c] = s.new(), s.new()
		VPERM2F128(Imm(0x20), u[4+c], u[c], out[c])
		VPERM2F128(Imm(0x31), u[4+c], u[c], out[4+c])
	}
	s.storeRows(out)
	end()
}

// gather copies k short rows, m numbers each and m at most the lanes of a
// vector, from rows lds bytes apart to one after another.
func gather(s isa) {
	s.text("gather", "func(k int, src *float32, lds int, dst *float32, m int)")
	k, src, lds, dst, m := arg("k"), arg("src"), arg("lds"), arg("dst"), arg("m")
	l := lanes{isa: s, tail: true}
	if s.wide() {
		l.k = opmask(m)
	} else {
		l.y = laneMask(m)
	}
	SHLQ(Imm(2), m)
	l.ptrs = []reg.GPVirtual{dst, src}
	Label("loop")
	l.store(0, l.load(1))
	ADDQ(lds, src)
	ADDQ(m, dst)
	DECQ(k)
	JNZ(LabelRef("loop"))
	end()
}
