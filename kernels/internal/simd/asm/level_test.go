package main

import (
	"strings"
	"testing"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/reg"
)

// TestLevels compiles functions that use what their level has, and what it lacks.
func TestLevels(t *testing.T) {
	sum := func(vectors int) func(c *build.Context) {
		return func(c *build.Context) { // keeps so many vectors at once
			var all []reg.VecVirtual
			for range vectors {
				x := c.YMM()
				c.VPXOR(x, x, x)
				all = append(all, x)
			}
			for _, x := range all[1:] {
				c.VPADDW(x, all[0], all[0])
			}
		}
	}
	for _, test := range []struct {
		name, want string // want is part of the error
		write      func(c *build.Context)
	}{
		{"manyAVX2", "", sum(16)},
		{"tooManyAVX2", "does not have", sum(17)},
		{"manyAVX512", "", func(c *build.Context) {
			x, k := c.ZMM(), c.K()
			c.VPXORD(x, x, x)
			c.VPTESTMB(x, x, k)
			c.VMOVDQU8_Z(x, k, x)
		}},
		{"maskAVX2", "AVX512", func(c *build.Context) { c.KXORW(reg.K1, reg.K1, reg.K1) }},
		{"moveAVX2", "register Y16", func(c *build.Context) { c.VMOVUPS(reg.Y16, reg.Y1) }},
		{"wideAVX2", "AVX512F", func(c *build.Context) { c.VADDPS(reg.Z0, reg.Z0, reg.Z0) }},
		{"shortAVX2", "AVX512", func(c *build.Context) { c.VPTERNLOGD(operand.Imm(1), reg.Y0, reg.Y1, reg.Y2) }},
		{"halfAVX2", "F16C", func(c *build.Context) { c.VCVTPH2PS(reg.X0, reg.Y0) }},
		{"countAVX2", "POPCNT", func(c *build.Context) { c.POPCNTQ(reg.RAX, reg.RBX) }},
		{"carryAVX2", "ADX", func(c *build.Context) { c.ADCXQ(reg.RAX, reg.RBX) }},
		{"bytesAVX512", "AVX512VBMI", func(c *build.Context) { c.VPERMB(reg.Z0, reg.Z1, reg.Z2) }},
		{"productsAVX512", "AVX512IFMA", func(c *build.Context) { c.VPMADD52LUQ(reg.Z0, reg.Z1, reg.Z2) }},
		{"dotsAVX512", "AVX512VNNI", func(c *build.Context) { c.VPDPBUSD(reg.Z0, reg.Z1, reg.Z2) }},
		{"nameless", "ends in no level", func(c *build.Context) {}},
	} {
		c := build.NewContext()
		c.Function(test.name)
		c.SignatureExpr("func()")
		test.write(c)
		c.RET()
		f, err := c.Result()
		if err != nil {
			t.Fatal(test.name, err)
		}
		err = pass.Compile.Execute(f)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want an error with %q", test.name, err, test.want)
		}
	}
}
