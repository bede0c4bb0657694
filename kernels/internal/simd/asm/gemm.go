package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// depthUnroll is how many steps of the inner dimension one turn of the main
// loop takes.
const depthUnroll = 4

// linePair is the bytes of two cache lines, which processors fetch together.
const linePair = 128

// gemm writes the tiles of the matrix product: for each number of rows that
// fits the registers, two vectors or one wide, with A by rows or by columns.
func gemm(s isa) {
	rows := 14
	if !s.wide() {
		rows = 6
	}
	for _, vectors := range []int{2, 1} {
		for m := 1; m <= rows; m++ {
			for _, byColumn := range []bool{false, true} {
				tile{s, m, vectors, byColumn}.write()
			}
		}
	}
	gather(s)
	if s.wide() {
		transpose16(s)
	} else {
		transpose8(s)
	}
}

// tile is a kernel for C[m x cols] (+)= A[m x k] · B[k x cols], with cols at
// most the lanes of its vectors. Strides are in bytes. B must be readable for
// whole vectors; of C, only cols columns are touched. With byColumn, A is
// stored transposed, and lda is the distance between its steps in k. The rows
// of A are so many pieces of k, and skip lies between the end of a piece and
// the next: a window over an image is one piece for each of its lines. While it
// runs, it asks for the memory from next on, 64 bytes for each step of k: as much
// as fourteen rows of A have, or a quarter to a half of a panel of B.
type tile struct {
	isa
	m, vectors int
	byColumn   bool
}

func (t tile) write() {
	layout := "N"
	if t.byColumn {
		layout = "T"
	}
	t.text(fmt.Sprintf("gemm%s%dx%d", layout, t.m, t.vectors),
		"func(k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int, cols int, accumulate int, next *float32, pieces int, skip int)")
	restore := flushSubnormals()
	a, lda, b, ldb, next := arg("a"), arg("lda"), arg("b"), arg("ldb"), arg("next")
	rows := t.rowPointers(a, lda)
	acc := make([][]vec, t.m)
	for i := range acc {
		acc[i] = make([]vec, t.vectors)
		for j := range acc[i] {
			acc[i][j] = t.zero()
		}
	}
	t.prefetch()

	fromB := make([]vec, t.vectors)
	for j := range fromB {
		fromB[j] = t.new()
	}
	fromA := []vec{t.new(), t.new()}
	step := func(u int) {
		for j, v := range fromB {
			VMOVUPS(Mem{Base: b, Disp: j * t.size}, v)
		}
		ADDQ(ldb, b)
		for i := range t.m {
			v := fromA[i%2]
			VBROADCASTSS(t.element(a, lda, rows, i, u), v)
			for j := range fromB {
				VFMADD231PS(v, fromB[j], acc[i][j])
			}
		}
		if t.byColumn {
			ADDQ(lda, a)
		}
	}
	advance := func(steps int) {
		if t.byColumn {
			return
		}
		for _, p := range rows {
			ADDQ(Imm(uint64(4*steps)), p)
		}
	}

	// There are no registers left for these.
	length, pieces, skip := inMemory("k"), inMemory("pieces"), inMemory("skip")
	Label("piece")
	turns := GP64()
	MOVQ(length, turns)
	SHRQ(Imm(2), turns)
	JZ(LabelRef("tail"))
	Label("loop")
	for u := range depthUnroll {
		step(u)
	}
	PREFETCHT1(Mem{Base: next})
	PREFETCHT1(Mem{Base: next, Disp: linePair})
	ADDQ(U32(2*linePair), next)
	advance(depthUnroll)
	DECQ(turns)
	JNZ(LabelRef("loop"))
	Label("tail")
	rest := turns
	MOVQ(length, rest)
	ANDQ(Imm(depthUnroll-1), rest)
	JZ(LabelRef("ended"))
	Label("tailloop")
	step(0)
	advance(1)
	DECQ(rest)
	JNZ(LabelRef("tailloop"))
	Label("ended")
	DECQ(pieces)
	JZ(LabelRef("finish"))
	for _, p := range rows {
		ADDQ(skip, p)
	}
	JMP(LabelRef("piece"))
	Label("finish")
	t.finish(acc, fromA, fromB)
	restore()
	end()
}

// rowPointers returns a pointer to every third row of A: the two after it are
// within reach of an index scaled by one and by two.
func (t tile) rowPointers(a, lda reg.GPVirtual) []reg.GPVirtual {
	rows := []reg.GPVirtual{a}
	if t.byColumn {
		return rows
	}
	for i := 3; i < t.m; i += 3 {
		p := GP64()
		LEAQ(Mem{Base: rows[len(rows)-1], Index: lda, Scale: 2}, p)
		ADDQ(lda, p)
		rows = append(rows, p)
	}
	return rows
}

func (t tile) element(a, lda reg.GPVirtual, rows []reg.GPVirtual, i, u int) Mem {
	if t.byColumn {
		return Mem{Base: a, Disp: 4 * i}
	}
	m := Mem{Base: rows[i/3], Disp: 4 * u}
	if i%3 != 0 {
		m.Index, m.Scale = lda, uint8(i%3)
	}
	return m
}

// prefetch asks for C early: it is used once, at the end.
func (t tile) prefetch() {
	c, ldc := arg("c"), arg("ldc")
	for i := range t.m {
		for offset := 0; offset < t.vectors*t.size; offset += 64 {
			PREFETCHT0(Mem{Base: c, Disp: offset})
		}
		if i+1 < t.m {
			ADDQ(ldc, c)
		}
	}
}

// finish adds C to the accumulators if asked to and stores them.
func (t tile) finish(acc [][]vec, spare, masks []vec) {
	c, ldc, cols, accumulate := arg("c"), arg("ldc"), arg("cols"), arg("accumulate")
	load, store := t.columns(cols, masks)
	TESTQ(accumulate, accumulate)
	JZ(LabelRef("store"))
	p := GP64()
	MOVQ(c, p)
	for i := range t.m {
		for j := range t.vectors {
			load(p, j, spare[j])
			VADDPS(spare[j], acc[i][j], acc[i][j])
		}
		if i+1 < t.m {
			ADDQ(ldc, p)
		}
	}
	Label("store")
	for i := range t.m {
		for j := range t.vectors {
			store(acc[i][j], c, j)
		}
		if i+1 < t.m {
			ADDQ(ldc, c)
		}
	}
}

// columns returns a load and a store of the j-th vector of a row that touch
// only the first cols columns.
func (t tile) columns(cols reg.GPVirtual, masks []vec) (load func(p reg.GPVirtual, j int, v vec), store func(v vec, p reg.GPVirtual, j int)) {
	if t.wide() {
		bits := GP64()
		MOVQ(U32(0xffffffff), bits)
		BZHIQ(cols, bits, bits)
		ks := make([]reg.OpmaskVirtual, t.vectors)
		for j := range ks {
			if j > 0 {
				SHRQ(Imm(16), bits)
			}
			ks[j] = K()
			KMOVW(bits.As32(), ks[j])
		}
		return func(p reg.GPVirtual, j int, v vec) { VMOVUPS_Z(Mem{Base: p, Disp: j * t.size}, ks[j], v) },
			func(v vec, p reg.GPVirtual, j int) { VMOVUPS(v, ks[j], Mem{Base: p, Disp: j * t.size}) }
	}
	table := laneWindow()
	NEGQ(cols)
	for j, m := range masks {
		VMOVUPS(Mem{Base: table, Disp: windowBytes + j*t.size, Index: cols, Scale: 4}, m)
	}
	return func(p reg.GPVirtual, j int, v vec) { VMASKMOVPS(Mem{Base: p, Disp: j * t.size}, masks[j], v) },
		func(v vec, p reg.GPVirtual, j int) { VMASKMOVPS(v, masks[j], Mem{Base: p, Disp: j * t.size}) }
}
