package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/reg"
)

// level is what the functions of an instruction set may use, in avo's words. It agrees with the gates of package simd.
type level struct {
	extensions map[string]bool
	vectors    int  // registers
	evex       bool // masks, 512-bit vectors and suffixes
}

// levels are by the end of the functions' names.
var levels = map[string]level{
	avx2.name:   {having("AVX", "AVX2", "FMA3", "BMI2"), 16, false},
	avx512.name: {having("AVX", "AVX2", "FMA3", "BMI2", "AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL"), 32, true},
}

// having is a set of extensions, with those that every amd64 processor has: MMX+ is the first SSE's prefetch.
func having(extensions ...string) map[string]bool {
	set := map[string]bool{"CMOV": true, "MMX+": true, "SSE": true, "SSE2": true}
	for _, e := range extensions {
		set[e] = true
	}
	return set
}

// The last pass refuses what a level does not have. avo itself takes any register that is free.
func init() {
	pass.Compile = pass.Concat(pass.Compile, pass.FunctionPass(fitsLevel))
}

// fitsLevel returns an error for a function that uses a register or an instruction beyond the level in its name.
func fitsLevel(fn *ir.Function) error {
	for end, l := range levels {
		if strings.HasSuffix(fn.Name, end) {
			for _, i := range fn.Instructions() {
				if err := l.refuse(i); err != nil {
					return fmt.Errorf("%s: %s: %w", fn.Name, i.OpcodeWithSuffixes(), err)
				}
			}
			return nil
		}
	}
	return fmt.Errorf("%s: the name ends in no level", fn.Name)
}

func (l level) refuse(i *ir.Instruction) error {
	for _, extension := range i.ISA {
		if !l.extensions[extension] {
			return fmt.Errorf("the level does not have %s", extension)
		}
	}
	if len(i.Suffixes) > 0 && !l.evex {
		return fmt.Errorf("the level has no suffixes")
	}
	for _, op := range i.Operands {
		for _, r := range operand.Registers(op) {
			p := reg.ToPhysical(r)
			switch {
			case p == nil:
				return fmt.Errorf("%v has no physical register", r)
			case r.Kind() == reg.KindOpmask && !l.evex:
				return fmt.Errorf("the level does not have the mask %s", p.Asm())
			case r.Kind() == reg.KindVector && (int(p.PhysicalIndex()) >= l.vectors || r.Size() == 64 && !l.evex):
				return fmt.Errorf("the level does not have the register %s", p.Asm())
			}
		}
	}
	return nil
}
