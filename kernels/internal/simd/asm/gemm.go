package main

import (
	"fmt"
	"strings"

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
				tile{s, float32s, m, vectors, byColumn}.write()
			}
		}
	}
	for m := 1; m <= rows; m++ {
		tile{s, float64s, m, 2, false}.write()
	}
	for m := 1; m <= rows-1; m++ { // products need a register on their way to the sum
		tile{s, int32s, m, 2, false}.write()
	}
	gather(s)
	pack(s)
	packNarrow(s)
	if s.wide() {
		transpose16(s)
	} else {
		transpose8(s)
	}
}

// tile is a kernel for C[m x cols] (+)= A[m x k] · B[k x cols], with cols at
// most the lanes of its vectors, and for so many of these below one another:
// A of the next one begins stepA further, its C follows. Strides and steps are in bytes. B must be readable for
// whole vectors; of C, only cols columns are touched. With byColumn, A is
// stored transposed, and lda is the distance between its steps in k. The rows
// of A are so many pieces of k, and skip lies between the end of a piece and
// the next: a window over an image is one piece for each of its lines. While a
// tile is computed, it asks for the memory from next on, 64 bytes for each step of k: as much
// as fourteen rows of A have, or a quarter to a half of a panel of B. For the next tile that begins stepNext further.
type tile struct {
	isa
	element
	m, vectors int
	byColumn   bool
}

// The ways to store C.
const (
	storeSum    = 1 // with what is there added
	storeStream = 2 // past the caches: whole vectors, whose addresses are multiples of their size
)

func (t tile) write() {
	layout := t.element.name
	if t.byColumn {
		layout = "T"
	}
	t.text(fmt.Sprintf("gemm%s%dx%d", layout, t.m, t.vectors), strings.ReplaceAll(
		"func(k int, a *T, lda int, b *T, ldb int, c *T, ldc int, cols int, store int, next uintptr, pieces int, skip int, tiles int, stepA int, stepNext int)", "T", t.goType))
	restore := flushSubnormals()
	// There are no registers for these.
	length, pieces, skip, mode := inMemory("k"), inMemory("pieces"), inMemory("skip"), inMemory("store")
	pieceLeft := AllocLocal(8)
	fromB := make([]vec, t.vectors)
	for j := range fromB {
		fromB[j] = t.new()
	}
	fromA := []vec{t.new(), t.new()}
	Label("tile")
	a, lda, b, ldb, next := arg("a"), arg("lda"), arg("b"), arg("ldb"), arg("next")
	rows := t.rowPointers(a, lda)
	acc := make([][]vec, t.m)
	for i := range acc {
		acc[i] = make([]vec, t.vectors)
		for j := range acc[i] {
			acc[i][j] = t.zero()
		}
	}
	t.prefetch(mode)
	turns := GP64()
	MOVQ(pieces, turns)
	MOVQ(turns, pieceLeft)

	step := func(u int) {
		for j, v := range fromB {
			VMOVUPS(Mem{Base: b, Disp: j * t.size}, v)
		}
		ADDQ(ldb, b)
		for i := range t.m {
			v := fromA[i%2]
			t.broadcast(t.inA(a, lda, rows, i, u), v)
			for j := range fromB {
				t.multiplyAdd(t.isa, v, fromB[j], acc[i][j])
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
			ADDQ(Imm(uint64(t.bytes*steps)), p)
		}
	}

	Label("piece")
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
	DECQ(pieceLeft)
	JZ(LabelRef("finish"))
	for _, p := range rows {
		ADDQ(skip, p)
	}
	JMP(LabelRef("piece"))
	Label("finish")
	t.finish(acc, fromA, fromB, mode)
	t.following("a", "stepA")
	t.following("next", "stepNext")
	DECQ(inMemory("tiles"))
	JNZ(LabelRef("tile"))
	CMPQ(mode, Imm(storeStream))
	JNE(LabelRef("done"))
	SFENCE()
	Label("done")
	restore()
	end()
}

// following adds a step to a pointer, both where they lie.
func (t tile) following(pointer, step string) {
	by := arg(step)
	ADDQ(by, inMemory(pointer))
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

func (t tile) inA(a, lda reg.GPVirtual, rows []reg.GPVirtual, i, u int) Mem {
	if t.byColumn {
		return Mem{Base: a, Disp: t.bytes * i}
	}
	m := Mem{Base: rows[i/3], Disp: t.bytes * u}
	if i%3 != 0 {
		m.Index, m.Scale = lda, uint8(i%3)
	}
	return m
}

// prefetch asks for C early: it is used once, at the end.
func (t tile) prefetch(mode Mem) {
	CMPQ(mode, Imm(storeStream))
	JE(LabelRef("asked"))
	c, ldc := arg("c"), arg("ldc")
	for i := range t.m {
		for offset := 0; offset < t.vectors*t.size; offset += 64 {
			PREFETCHT0(Mem{Base: c, Disp: offset})
		}
		if i+1 < t.m {
			ADDQ(ldc, c)
		}
	}
	Label("asked")
}

// finish stores the accumulators in C, after adding what is there if asked to, and goes on to C of the next tile.
func (t tile) finish(acc [][]vec, spare, masks []vec, mode Mem) {
	c, ldc := arg("c"), arg("ldc")
	load, store := t.columns(arg("cols"), masks)
	each := func(p reg.GPVirtual, visit func(i, j int)) {
		for i := range t.m {
			for j := range t.vectors {
				visit(i, j)
			}
			ADDQ(ldc, p)
		}
	}
	CMPQ(mode, Imm(storeSum))
	JL(LabelRef("store"))
	JG(LabelRef("stream"))
	p := GP64()
	MOVQ(c, p)
	each(p, func(i, j int) {
		load(p, j, spare[j])
		t.add(spare[j], acc[i][j], acc[i][j])
	})
	Label("store")
	each(c, func(i, j int) { store(acc[i][j], c, j) })
	JMP(LabelRef("stored"))
	Label("stream")
	each(c, func(i, j int) { VMOVNTPS(acc[i][j], Mem{Base: c, Disp: j * t.size}) })
	Label("stored")
	MOVQ(c, inMemory("c"))
}

// columns returns a load and a store of the j-th vector of a row that touch
// only the first cols columns.
func (t tile) columns(cols reg.GPVirtual, masks []vec) (load func(p reg.GPVirtual, j int, v vec), store func(v vec, p reg.GPVirtual, j int)) {
	lanes := t.size / t.bytes
	if t.wide() {
		bits := GP64()
		MOVQ(U32(0xffffffff), bits)
		BZHIQ(cols, bits, bits)
		ks := make([]reg.OpmaskVirtual, t.vectors)
		for j := range ks {
			if j > 0 {
				SHRQ(Imm(uint64(lanes)), bits)
			}
			ks[j] = K()
			KMOVW(bits.As32(), ks[j])
		}
		move, moveZ := VMOVUPS, VMOVUPS_Z
		if t.bytes == 8 {
			move, moveZ = VMOVUPD, VMOVUPD_Z
		}
		return func(p reg.GPVirtual, j int, v vec) { moveZ(Mem{Base: p, Disp: j * t.size}, ks[j], v) },
			func(v vec, p reg.GPVirtual, j int) { move(v, ks[j], Mem{Base: p, Disp: j * t.size}) }
	}
	table := laneWindow()
	NEGQ(cols)
	for j, m := range masks {
		VMOVUPS(Mem{Base: table, Disp: windowBytes + j*t.size, Index: cols, Scale: uint8(t.bytes)}, m)
	}
	move := VMASKMOVPS
	if t.bytes == 8 {
		move = VMASKMOVPD
	}
	return func(p reg.GPVirtual, j int, v vec) { move(Mem{Base: p, Disp: j * t.size}, masks[j], v) },
		func(v vec, p reg.GPVirtual, j int) { move(v, masks[j], Mem{Base: p, Disp: j * t.size}) }
}

// element is an element type of products.
type element struct {
	name, goType string
	bytes        int
	broadcast    func(m, v Op)
	add          func(y, x, dst Op)
	multiplyAdd  func(s isa, y, x, dst vec)
}

var (
	float32s = element{
		name: "N", goType: "float32", bytes: 4,
		broadcast:   func(m, v Op) { VBROADCASTSS(m, v) },
		add:         func(y, x, dst Op) { VADDPS(y, x, dst) },
		multiplyAdd: func(_ isa, y, x, dst vec) { VFMADD231PS(y, x, dst) },
	}
	float64s = element{
		name: "Double", goType: "float64", bytes: 8,
		broadcast:   func(m, v Op) { VBROADCASTSD(m, v) },
		add:         func(y, x, dst Op) { VADDPD(y, x, dst) },
		multiplyAdd: func(_ isa, y, x, dst vec) { VFMADD231PD(y, x, dst) },
	}
	int32s = element{
		name: "Int", goType: "int32", bytes: 4,
		broadcast: func(m, v Op) { VPBROADCASTD(m, v) },
		add:       func(y, x, dst Op) { VPADDD(y, x, dst) },
		multiplyAdd: func(s isa, y, x, dst vec) {
			t := s.new()
			VPMULLD(y, x, t)
			VPADDD(t, dst, dst)
		},
	}
)
