package main

import (
	"fmt"
	"strings"
)

// tileRows is how many rows a tile has at most: two vectors of sums for each, one of A, and two pairs of B fill the registers.
const tileRows = 8

// element is an element type of products.
type element struct {
	name, goType  string
	bytes         int
	move          string // of a single one
	register      string
	multiply, sum uint32
}

var elements = []element{
	{"N", "float32", 4, "FMOVS", "F", 0x4f801000, 0x4e20d400},
	{"Double", "float64", 8, "FMOVD", "F", 0x4fc01000, 0x4e60d400},
	{"Int", "int32", 4, "FMOVS", "F", 0x6f800000, 0x4ea08400},
}

// tile is a kernel as that of asm, for two vectors of columns. It asks for no memory ahead.
type tile struct {
	*generator
	element
	m        int
	byColumn bool
}

// products writes the tiles of the matrix product.
func products(g *generator) {
	for _, e := range elements {
		for m := 1; m <= tileRows; m++ {
			tile{g, e, m, false}.write()
			if e.name == "N" {
				tile{g, e, m, true}.write()
			}
		}
	}
	transpose(g)
}

// transpose writes the transpose of a block of four by four.
func transpose(g *generator) {
	g.flush = false
	g.open("transpose", "src *float32, lds int, dst *float32, ldd int)", 32)
	for i, arg := range []string{"src", "lds", "dst", "ldd"} {
		g.emit("MOVD %s+%d(FP), R%d", arg, 8*i, i)
	}
	for i := range 4 {
		g.emit("FMOVQ (R0), F%d", i)
		g.emit("ADD R1, R0")
	}
	for i := range 2 {
		g.three("TRN1 of 32 bits", 0x4e802800, 4+i, 2*i, 2*i+1)
		g.three("TRN2 of 32 bits", 0x4e806800, 6+i, 2*i, 2*i+1)
	}
	for i := range 2 {
		g.three("TRN1 of 64 bits", 0x4ec02800, i, 4+2*i, 5+2*i)
		g.three("TRN2 of 64 bits", 0x4ec06800, 2+i, 4+2*i, 5+2*i)
	}
	for i := range 4 {
		g.emit("FMOVQ F%d, (R2)", i)
		g.emit("ADD R3, R2")
	}
	g.end()
}

// The registers of a tile.
const (
	tileA, tileLda, tileB, tileLdb, tileC, tileLdc = "R0", "R1", "R2", "R3", "R4", "R5"
	tileCols, tileAdd, tilePieces, tileSkip        = "R6", "R7", "R8", "R9"
	tileTurns, tileAt                              = "R12", "R13"
)

// row is where row i of A is read.
func row(i int) string { return []string{"R0", "R14", "R15", "R19", "R20", "R21", "R22", "R23"}[i] }

// acc and fromB are vectors j of a row's sums and of B, fromA those of A.
func acc(i, j int) int      { return 2*i + j }
func fromA(i int) int       { return 2*tileRows + i }
func fromB(pair, j int) int { return 3*tileRows + 2*pair + j }

func (t tile) lanes() int { return 16 / t.bytes }

func (t tile) write() {
	layout := t.name
	if t.byColumn {
		layout = "T"
	}
	t.flush, t.vector, t.fixed = false, 0, 0
	t.open(fmt.Sprintf("gemm%s%dx2", layout, t.m), strings.ReplaceAll(
		"k int, a *T, lda int, b *T, ldb int, c *T, ldc int, cols int, accumulate int, next uintptr, pieces int, skip int)", "T", t.goType), 96)
	if t.goType != "int32" {
		t.flushSubnormals()
	}
	for _, arg := range []struct {
		name, to string
		at       int
	}{
		{"a", tileA, 8}, {"lda", tileLda, 16}, {"b", tileB, 24}, {"ldb", tileLdb, 32}, {"c", tileC, 40}, {"ldc", tileLdc, 48},
		{"cols", tileCols, 56}, {"accumulate", tileAdd, 64}, {"pieces", tilePieces, 80}, {"skip", tileSkip, 88},
	} {
		t.emit("MOVD %s+%d(FP), %s", arg.name, arg.at, arg.to)
	}
	rows := 1
	if !t.byColumn {
		rows = t.m
		for i := 1; i < t.m; i++ {
			t.emit("ADD %s, %s, %s", tileLda, row(i-1), row(i))
		}
	}
	for i := range t.m {
		for j := range 2 {
			t.emit("VEOR V%d.B16, V%d.B16, V%d.B16", acc(i, j), acc(i, j), acc(i, j))
		}
	}
	piece, loop, tail, again, ended, finish := t.fresh("piece"), t.fresh("loop"), t.fresh("tail"), t.fresh("again"), t.fresh("ended"), t.fresh("finish")
	t.label(piece)
	t.emit("MOVD k+0(FP), %s", tileTurns)
	if !t.byColumn {
		t.emit("CMP $%d, %s", t.lanes(), tileTurns)
		t.emit("BLT %s", tail)
		t.label(loop)
		for i := range t.m {
			t.emit("FMOVQ.P 16(%s), F%d", row(i), fromA(i))
		}
		for u := range t.lanes() {
			t.step(u%2, func(i int) (int, int) { return fromA(i), u })
		}
		t.emit("SUB $%d, %s", t.lanes(), tileTurns)
		t.emit("CMP $%d, %s", t.lanes(), tileTurns)
		t.emit("BGE %s", loop)
		t.label(tail)
	}
	t.emit("CBZ %s, %s", tileTurns, ended)
	t.label(again)
	if t.byColumn {
		t.column()
	} else {
		for i := range t.m {
			t.emit("%s.P %d(%s), F%d", t.move, t.bytes, row(i), fromA(i))
		}
		t.step(0, func(i int) (int, int) { return fromA(i), 0 })
	}
	t.emit("SUB $1, %s", tileTurns)
	t.emit("CBNZ %s, %s", tileTurns, again)
	t.label(ended)
	t.emit("SUB $1, %s", tilePieces)
	t.emit("CBZ %s, %s", tilePieces, finish)
	for i := range rows {
		t.emit("ADD %s, %s", tileSkip, row(i))
	}
	t.emit("B %s", piece)
	t.label(finish)
	t.finish()
	t.end()
}

// step adds the products of one step of k. in tells the vector and the lane of a row's number.
func (t tile) step(pair int, in func(i int) (v, lane int)) {
	for j := range 2 {
		t.emit("FMOVQ %d(%s), F%d", 16*j, tileB, fromB(pair, j))
	}
	t.emit("ADD %s, %s", tileLdb, tileB)
	for i := range t.m {
		v, lane := in(i)
		index := uint32(lane&1)<<21 | uint32(lane>>1)<<11
		if t.bytes == 8 {
			index = uint32(lane) << 11
		}
		for j := range 2 {
			t.three(fmt.Sprintf("multiply by [%d]:", lane), t.multiply|index, acc(i, j), fromB(pair, j), v)
		}
	}
}

// column is a step whose numbers of A lie side by side.
func (t tile) column() {
	at := 0
	for _, piece := range []struct {
		numbers int
		move    string
	}{{4, "FMOVQ"}, {2, "FMOVD"}, {1, "FMOVS"}} {
		for t.m-at >= piece.numbers {
			t.emit("%s %d(%s), F%d", piece.move, 4*at, tileA, fromA(at))
			at += piece.numbers
		}
	}
	t.emit("ADD %s, %s", tileLda, tileA)
	t.step(0, func(i int) (int, int) {
		from := i / 4 * 4 // where the load began that has row i
		if rest := t.m - from; rest < 4 && i-from >= rest&2 {
			from += rest & 2
		}
		return fromA(from), i - from
	})
}

// finish adds C to the sums if asked to, and stores them: row by row, and of the last columns by twos and ones.
func (t tile) finish() {
	partial, done := t.fresh("partial"), t.fresh("done")
	t.emit("CMP $%d, %s", 2*t.lanes(), tileCols)
	t.emit("BLT %s", partial)
	for i := range t.m {
		store := t.fresh("store")
		t.emit("CBZ %s, %s", tileAdd, store)
		for j := range 2 {
			t.emit("FMOVQ %d(%s), F%d", 16*j, tileC, fromB(0, j))
			t.three("ADD", t.sum, acc(i, j), acc(i, j), fromB(0, j))
		}
		t.label(store)
		for j := range 2 {
			t.emit("FMOVQ F%d, %d(%s)", acc(i, j), 16*j, tileC)
		}
		t.emit("ADD %s, %s", tileLdc, tileC)
	}
	t.emit("B %s", done)
	t.label(partial)
	for i := range t.m {
		t.emit("MOVD %s, %s", tileC, tileAt)
		v := acc(i, 0)
		for numbers, bit := t.lanes(), t.log2(); numbers > 0; numbers, bit = numbers/2, bit-1 {
			move := map[int]string{16: "FMOVQ", 8: "FMOVD", 4: "FMOVS"}[numbers*t.bytes]
			without, store := t.fresh("without"), t.fresh("store")
			t.emit("TBZ $%d, %s, %s", bit, tileCols, without)
			t.emit("CBZ %s, %s", tileAdd, store)
			t.emit("%s (%s), F%d", move, tileAt, fromB(0, 0))
			t.three("ADD", t.sum, v, v, fromB(0, 0))
			t.label(store)
			t.emit("%s.P F%d, %d(%s)", move, v, numbers*t.bytes, tileAt)
			switch {
			case numbers == t.lanes():
				t.copy(several{v}, several{acc(i, 1)})
			case numbers > 1:
				t.emit("VEXT $8, V%d.B16, V%d.B16, V%d.B16", v, v, v)
			}
			t.label(without)
		}
		t.emit("ADD %s, %s", tileLdc, tileC)
	}
	t.label(done)
}

func (t tile) log2() int {
	if t.bytes == 8 {
		return 1
	}
	return 2
}
