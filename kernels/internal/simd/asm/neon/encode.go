package main

// The instructions by their encodings, in "Arm Architecture Reference Manual for A-profile", C7.2: of four float32 or int32, or of
// all bits.

func (g *generator) three(name string, code uint32, d, n, m int) {
	g.emit("WORD $0x%08x // %s V%d, V%d, V%d", code|uint32(m)<<16|uint32(n)<<5|uint32(d), name, d, n, m)
}

func (g *generator) two(name string, code uint32, d, n int) {
	g.emit("WORD $0x%08x // %s V%d, V%d", code|uint32(n)<<5|uint32(d), name, d, n)
}

func (g *generator) threes(name string, code uint32, d, n, m several) {
	for i := range d {
		g.three(name, code, d[i], n[i], m[i])
	}
}

func (g *generator) twos(name string, code uint32, d, n several) {
	for i := range d {
		g.two(name, code, d[i], n[i])
	}
}

// d = n op m.
func (g *generator) fadd(d, n, m several) { g.threes("FADD", 0x4e20d400, d, n, m) }
func (g *generator) fsub(d, n, m several) { g.threes("FSUB", 0x4ea0d400, d, n, m) }
func (g *generator) fmul(d, n, m several) { g.threes("FMUL", 0x6e20dc00, d, n, m) }
func (g *generator) fdiv(d, n, m several) { g.threes("FDIV", 0x6e20fc00, d, n, m) }
func (g *generator) fmax(d, n, m several) { g.threes("FMAX", 0x4e20f400, d, n, m) }
func (g *generator) fmin(d, n, m several) { g.threes("FMIN", 0x4ea0f400, d, n, m) }
func (g *generator) add(d, n, m several)  { g.threes("ADD", 0x4ea08400, d, n, m) }
func (g *generator) sub(d, n, m several)  { g.threes("SUB", 0x6ea08400, d, n, m) }
func (g *generator) and(d, n, m several)  { g.threes("AND", 0x4e201c00, d, n, m) }
func (g *generator) or(d, n, m several)   { g.threes("ORR", 0x4ea01c00, d, n, m) }

// orNot is n | ^m, andNot n & ^m.
func (g *generator) orNot(d, n, m several)  { g.threes("ORN", 0x4ee01c00, d, n, m) }
func (g *generator) andNot(d, n, m several) { g.threes("BIC", 0x4e601c00, d, n, m) }

// fmla is d + n*m, fmls d - n*m, rounded once.
func (g *generator) fmla(d, n, m several) { g.threes("FMLA", 0x4e20cc00, d, n, m) }
func (g *generator) fmls(d, n, m several) { g.threes("FMLS", 0x4ea0cc00, d, n, m) }

// Comparisons set all bits where they hold, which they do not where a number is NaN.
func (g *generator) greater(d, n, m several) { g.threes("FCMGT", 0x6ea0e400, d, n, m) }
func (g *generator) equal(d, n, m several)   { g.threes("FCMEQ", 0x4e20e400, d, n, m) }
func (g *generator) positive(d, n several)   { g.twos("FCMGT0", 0x4ea0c800, d, n) }
func (g *generator) negative(d, n several)   { g.twos("FCMLT0", 0x4ea0e800, d, n) }
func (g *generator) zero(d, n several)       { g.twos("FCMEQ0", 0x4ea0d800, d, n) }
func (g *generator) notPositive(d, n several) {
	g.twos("FCMLE0", 0x6ea0d800, d, n)
}

// choose sets d to n where m is set; unless where it is not.
func (g *generator) choose(d, n, m several) { g.threes("BIT", 0x6ea01c00, d, n, m) }
func (g *generator) unless(d, n, m several) { g.threes("BIF", 0x6ee01c00, d, n, m) }

func (g *generator) copy(d, n several)    { g.or(d, n, n) }
func (g *generator) fneg(d, n several)    { g.twos("FNEG", 0x6ea0f800, d, n) }
func (g *generator) fabs(d, n several)    { g.twos("FABS", 0x4ea0f800, d, n) }
func (g *generator) fsqrt(d, n several)   { g.twos("FSQRT", 0x6ea1f800, d, n) }
func (g *generator) round(d, n several)   { g.twos("FRINTN", 0x4e218800, d, n) }
func (g *generator) toInt(d, n several)   { g.twos("FCVTNS", 0x4e21a800, d, n) }
func (g *generator) toFloat(d, n several) { g.twos("SCVTF", 0x4e21d800, d, n) }

// Shifts of int32.
func (g *generator) shiftLeft(d, n several, by int) {
	g.twos("SHL", 0x4f005400|uint32(32+by)<<16, d, n)
}
func (g *generator) shiftRight(d, n several, by int) {
	g.twos("SSHR", 0x4f000400|uint32(64-by)<<16, d, n)
}

// sumOfLanes leaves the sum of v's numbers in all of them.
func (g *generator) sumOfLanes(v int) {
	g.three("FADDP", 0x6e20d400, v, v, v)
	g.three("FADDP", 0x6e20d400, v, v, v)
}
