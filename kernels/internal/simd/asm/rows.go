package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowsOf is a set of kernels on the rows of a matrix, which lie lda bytes apart.
type rowsOf struct {
	isa
	element
}

const (
	// wideBlock is how many vectors of a sum of rows stay in registers.
	wideBlock = 8
	// rowGroup is how many rows are taken together.
	rowGroup = 4
)

// rows writes the products of matrices and vectors, for both types.
func rows(s isa) {
	for _, e := range []element{float32s, float64s} {
		k := rowsOf{s, e}
		k.addRows()
		k.dotRows()
	}
}

func (k rowsOf) begin(name, signature string) (restore func()) {
	suffix := ""
	if k.bytes == 8 {
		suffix = "Double"
	}
	k.text(name+suffix, strings.ReplaceAll(signature, "T", k.goType))
	return flushSubnormals()
}

func (k rowsOf) perVector() int { return k.size / k.bytes }

// product adds x times y to sum.
func (k rowsOf) product(x Op, y, sum vec) {
	if k.bytes == 8 {
		VFMADD231PD(x, y, sum)
	} else {
		VFMADD231PS(x, y, sum)
	}
}

// masked is a load and a store of the first n numbers of a vector, or of all if n is more than that.
func (k rowsOf) masked(n reg.GPVirtual) (load func(m Mem) vec, store func(v vec, m Mem)) {
	most, few := GP64(), GP64()
	MOVQ(U32(uint32(k.perVector())), most)
	MOVQ(n, few)
	CMPQ(few, most)
	CMOVQGT(most, few)
	if k.wide() {
		mask := opmask(few)
		if k.bytes == 8 {
			return func(m Mem) vec { v := k.new(); VMOVUPD_Z(m, mask, v); return v }, func(v vec, m Mem) { VMOVUPD(v, mask, m) }
		}
		return func(m Mem) vec { v := k.new(); VMOVUPS_Z(m, mask, v); return v }, func(v vec, m Mem) { VMOVUPS(v, mask, m) }
	}
	table, mask := laneWindow(), YMM()
	NEGQ(few)
	VMOVUPS(Mem{Base: table, Disp: windowBytes, Index: few, Scale: uint8(k.bytes)}, mask)
	if k.bytes == 8 {
		return func(m Mem) vec { v := k.new(); VMASKMOVPD(m, mask, v); return v }, func(v vec, m Mem) { VMASKMOVPD(v, mask, m) }
	}
	return func(m Mem) vec { v := k.new(); VMASKMOVPS(m, mask, v); return v }, func(v vec, m Mem) { VMASKMOVPS(v, mask, m) }
}

// zeros are so many vectors of zeros.
func (k rowsOf) zeros(n int) []vec {
	v := make([]vec, n)
	for i := range v {
		v[i] = k.zero()
	}
	return v
}

// addRows adds the rows, times c, to y.
func (k rowsOf) addRows() {
	restore := k.begin("addRows", "func(rows, n int, a *T, lda int, c *T, y *T)")
	n, a, lda, y := arg("n"), arg("a"), arg("lda"), arg("y")
	lda3 := GP64()
	LEAQ(Mem{Base: lda, Index: lda, Scale: 2}, lda3)
	p, pc, left := GP64(), GP64(), GP64()
	again := func() {
		MOVQ(a, p)
		Load(Param("c"), pc)
		Load(Param("rows"), left)
	}
	acc := make([]vec, wideBlock)
	for i := range acc {
		acc[i] = k.new()
	}
	factor := k.new()

	Label("block")
	CMPQ(n, U32(uint32(wideBlock*k.perVector())))
	JL(LabelRef("rest"))
	again()
	for i, v := range acc {
		VMOVUPS(Mem{Base: y, Disp: i * k.size}, v)
	}
	Label("row")
	k.broadcast(Mem{Base: pc}, factor)
	for i, v := range acc {
		k.product(Mem{Base: p, Disp: i * k.size}, factor, v)
	}
	ADDQ(lda, p)
	ADDQ(Imm(uint64(k.bytes)), pc)
	DECQ(left)
	JNZ(LabelRef("row"))
	for i, v := range acc {
		VMOVUPS(v, Mem{Base: y, Disp: i * k.size})
	}
	ADDQ(U32(uint32(wideBlock*k.size)), a)
	ADDQ(U32(uint32(wideBlock*k.size)), y)
	SUBQ(U32(uint32(wideBlock*k.perVector())), n)
	JMP(LabelRef("block"))

	// One vector at a time, of several rows.
	Label("rest")
	CMPQ(n, Imm(0))
	JLE(LabelRef("done"))
	load, store := k.masked(n)
	again()
	sums := append([]vec{load(Mem{Base: y})}, k.zeros(rowGroup-1)...)
	Label("group")
	CMPQ(left, Imm(rowGroup))
	JL(LabelRef("single"))
	for i, m := range []Mem{{Base: p}, {Base: p, Index: lda, Scale: 1}, {Base: p, Index: lda, Scale: 2}, {Base: p, Index: lda3, Scale: 1}} {
		f := k.new()
		k.broadcast(Mem{Base: pc, Disp: i * k.bytes}, f)
		k.product(load(m), f, sums[i])
	}
	LEAQ(Mem{Base: p, Index: lda, Scale: 4}, p)
	ADDQ(Imm(uint64(rowGroup*k.bytes)), pc)
	SUBQ(Imm(rowGroup), left)
	JMP(LabelRef("group"))
	Label("single")
	TESTQ(left, left)
	JZ(LabelRef("sum"))
	k.broadcast(Mem{Base: pc}, factor)
	k.product(load(Mem{Base: p}), factor, sums[0])
	ADDQ(lda, p)
	ADDQ(Imm(uint64(k.bytes)), pc)
	DECQ(left)
	JMP(LabelRef("single"))
	Label("sum")
	k.add(sums[1], sums[0], sums[0])
	k.add(sums[3], sums[2], sums[2])
	k.add(sums[2], sums[0], sums[0])
	store(sums[0], Mem{Base: y})
	ADDQ(Imm(uint64(k.size)), a)
	ADDQ(Imm(uint64(k.size)), y)
	SUBQ(Imm(uint64(k.perVector())), n)
	JMP(LabelRef("rest"))
	Label("done")
	restore()
	end()
}

// storeSum stores the sum of a vector's numbers.
func (k rowsOf) storeSum(v vec, m Mem) {
	y := v
	if k.wide() {
		upper, lower := YMM(), YMM()
		VEXTRACTF64X4(Imm(1), v, upper)
		VMOVUPS(v.AsY(), lower)
		k.add(upper, lower, lower)
		y = lower
	}
	upper, x := XMM(), XMM()
	if k.wide() {
		VEXTRACTF32X4(Imm(1), y.AsY(), upper)
	} else {
		VEXTRACTF128(Imm(1), y.AsY(), upper)
	}
	VMOVUPS(y.AsX(), x)
	k.add(upper, x, x)
	if k.bytes == 8 {
		VPERMILPD(Imm(1), x, upper)
		k.add(upper, x, x)
		VMOVSD(x, m)
		return
	}
	for _, order := range []uint64{0x4e, 0xb1} {
		VPERMILPS(Imm(order), x, upper)
		k.add(upper, x, x)
	}
	VMOVSS(x, m)
}

// dotRows sets y to the products of the rows and x.
func (k rowsOf) dotRows() {
	restore := k.begin("dotRows", "func(rows, n int, a *T, lda int, x *T, y *T)")
	left, a, lda, y := arg("rows"), arg("a"), arg("lda"), arg("y")
	lda3 := GP64()
	LEAQ(Mem{Base: lda, Index: lda, Scale: 2}, lda3)
	for _, together := range []int{rowGroup, 1} {
		label := func(name string) string { return fmt.Sprintf("%s%d", name, together) }
		Label(label("rows"))
		CMPQ(left, Imm(uint64(together)))
		JL(LabelRef(label("after")))
		p, px, n := GP64(), GP64(), GP64()
		MOVQ(a, p)
		Load(Param("x"), px)
		Load(Param("n"), n)
		at := func(i, disp int) Mem {
			m := Mem{Base: p, Disp: disp}
			switch i {
			case 1, 2:
				m.Index, m.Scale = lda, uint8(i)
			case 3:
				m.Index, m.Scale = lda3, 1
			}
			return m
		}
		// Eight sums, so that no product waits for the one before.
		vectors := 8 / together
		sums := k.zeros(8)
		Label(label("vectors"))
		CMPQ(n, U32(uint32(vectors*k.perVector())))
		JL(LabelRef(label("rest")))
		for j := range vectors {
			x := k.new()
			VMOVUPS(Mem{Base: px, Disp: j * k.size}, x)
			for i := range together {
				k.product(at(i, j*k.size), x, sums[i*vectors+j])
			}
		}
		ADDQ(U32(uint32(vectors*k.size)), p)
		ADDQ(U32(uint32(vectors*k.size)), px)
		SUBQ(U32(uint32(vectors*k.perVector())), n)
		JMP(LabelRef(label("vectors")))
		Label(label("rest"))
		CMPQ(n, Imm(0))
		JLE(LabelRef(label("sum")))
		load, _ := k.masked(n)
		x := load(Mem{Base: px})
		for i := range together {
			k.product(load(at(i, 0)), x, sums[i*vectors])
		}
		ADDQ(Imm(uint64(k.size)), p)
		ADDQ(Imm(uint64(k.size)), px)
		SUBQ(Imm(uint64(k.perVector())), n)
		JMP(LabelRef(label("rest")))
		Label(label("sum"))
		for i := range together {
			parts := sums[i*vectors:][:vectors]
			for len(parts) > 1 {
				half := len(parts) / 2
				for j := range half {
					k.add(parts[j+half], parts[j], parts[j])
				}
				parts = parts[:half]
			}
			k.storeSum(parts[0], Mem{Base: y, Disp: i * k.bytes})
		}
		if together == rowGroup {
			LEAQ(Mem{Base: a, Index: lda, Scale: rowGroup}, a)
		} else {
			ADDQ(lda, a)
		}
		ADDQ(Imm(uint64(together*k.bytes)), y)
		SUBQ(Imm(uint64(together)), left)
		JMP(LabelRef(label("rows")))
		Label(label("after"))
	}
	restore()
	end()
}
