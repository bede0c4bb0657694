package simd

import "testing"

// armRow names the extension that the words with these bits belong to; the first row that matches counts. See "Arm Architecture Reference
// Manual for A-profile", C4.1. What is "" is in all processors of ARMv8.0 with Advanced SIMD, and what has no row is an error. Of the
// extensions, only those have rows here that lie among encodings of the others.
type armRow struct {
	mask, bits uint32
	extension  string
}

var armRows = []armRow{
	// Immediates: addresses, sums, logic, moves, fields, extraction.
	{0x1f000000, 0x10000000, ""}, {0x1f800000, 0x11000000, ""}, {0x1f800000, 0x12000000, ""}, {0x1f800000, 0x12800000, ""}, {0x1f800000, 0x13000000, ""},
	{0x1f800000, 0x13800000, ""},
	// Branches, SVC, NOP, and the floating-point control register.
	{0xff000010, 0x54000000, ""}, {0x7c000000, 0x14000000, ""}, {0x7e000000, 0x34000000, ""}, {0x7e000000, 0x36000000, ""},
	{0xfffffc1f, 0xd61f0000, ""}, {0xfffffc1f, 0xd63f0000, ""}, {0xfffffc1f, 0xd65f0000, ""}, {0xffe0001f, 0xd4000001, ""}, {0xffffffff, 0xd503201f, ""},
	{0xffffffe0, 0xd51b4400, ""}, {0xffffffe0, 0xd53b4400, ""},
	// Loads and stores: literals, pairs, single ones with offsets, and those of vectors.
	{0x3b000000, 0x18000000, ""}, {0x3e000000, 0x2c000000, ""}, {0x7e000000, 0x28000000, ""}, {0x3b200000, 0x38000000, ""}, {0x3b200c00, 0x38200800, ""},
	{0x3b000000, 0x39000000, ""}, {0xbfbf0000, 0x0c000000, ""}, {0xbfa00000, 0x0c800000, ""}, {0xbf9f0000, 0x0d000000, ""}, {0xbf800000, 0x0d800000, ""},
	// Registers: logic, sums, conditions, products, quotients, shifts, bits.
	{0x1f000000, 0x0a000000, ""}, {0x1f200000, 0x0b000000, ""}, {0x1fe00000, 0x0b200000, ""}, {0x1fe0fc00, 0x1a000000, ""}, {0x3fe00410, 0x3a400000, ""},
	{0x3fe00800, 0x1a800000, ""}, {0x7fe00000, 0x1b000000, ""}, {0xff600000, 0x9b200000, ""}, {0xff600000, 0x9b400000, ""},
	{0x7fe0f000, 0x1ac00000, ""}, {0x7fe0f000, 0x1ac02000, ""}, {0x7ffff000, 0x5ac00000, ""}, {0x7ffff800, 0x5ac01000, ""},
	// Vectors: three of the same type.
	{0xbf20fc00, 0x0e20ec00, "FHM"}, {0xbf20fc00, 0x2e20cc00, "FHM"}, {0xbfa0fc00, 0x0ea0dc00, "FAMINMAX"}, {0xbfa0fc00, 0x2ea0fc00, "FP8"},
	{0x9f200400, 0x0e200400, ""},
	// Vectors: three of different types.
	{0xbfe0fc00, 0x0ee0e000, "PMULL"}, {0x9f200c00, 0x0e200000, ""},
	// Vectors: two.
	{0x9fbfec00, 0x0e21e800, "FRINTTS"}, {0xbffffc00, 0x0ea16800, "BF16"}, {0xbf3ffc00, 0x2e217800, "FP8"}, {0x9f3e0c00, 0x0e200800, ""},
	// Vectors: across lanes, copies, permutations, extraction, tables.
	{0xbf3fcc00, 0x0e30c800, "ASIMDHP"}, {0x9f3e0c00, 0x0e300800, ""}, {0x9fe08400, 0x0e000400, ""}, {0xbf208c00, 0x0e000800, ""}, {0xbfe08400, 0x2e000000, ""},
	{0xbfe08c00, 0x0e000000, ""},
	// Vectors: immediates and shifts.
	{0x9ff80c00, 0x0f000400, ""}, {0x9ff80400, 0x0f000400, "ASIMDHP"}, {0x9ff0e400, 0x0f10e400, "ASIMDHP"}, {0x9f800400, 0x0f000400, ""},
	// Vectors: with an element of another.
	{0x9fc00400, 0x0f000000, "ASIMDHP"}, {0xbf00b400, 0x0f000000, "FHM"}, {0xbf00b400, 0x2f008000, "FHM"}, {0x9f00f400, 0x0f00e000, "ASIMDDP"},
	{0x9f00f400, 0x0f00f000, "BF16"}, {0xbf00f400, 0x2f00d000, "ASIMDRDM"}, {0xbf009400, 0x2f001000, "FCMA"}, {0x9f000400, 0x0f000000, ""},
	// The first numbers of vectors: pairs, copies.
	{0xff3e0c00, 0x7e300800, ""}, {0xfffffc00, 0x5ef1b800, ""}, {0xffe0fc00, 0x5e000400, ""},
	// Floats and doubles: one, two, comparison, selection, constants, sums of products, conversions.
	{0xfffffc00, 0x1e634000, "BF16"}, {0xffb87c00, 0x1e204000, ""}, {0xffa00c00, 0x1e200800, ""}, {0xffa0fc07, 0x1e202000, ""}, {0xffa00c00, 0x1e200c00, ""},
	{0xffa00c00, 0x1e200400, ""}, {0xffa01fe0, 0x1e201000, ""}, {0xff800000, 0x1f000000, ""}, {0xfffffc00, 0x1e7e0000, "JSCVT"}, {0x7fa0fc00, 0x1e200000, ""},
	{0x7fa00000, 0x1e000000, ""},
}

// armExtension returns the extension that an instruction belongs to. It is not ok if no row has the instruction.
func armExtension(word uint32) (extension string, ok bool) {
	for _, r := range armRows {
		if word&r.mask == r.bits {
			return r.extension, true
		}
	}
	return "", false
}

// armKinds are an instruction of each kind, with the extension that it belongs to; "?" if the test has to refuse it.
var armKinds = map[string]string{
	"ADD R0, R1, R2": "", "MUL R0, R1, R2": "", "UDIV R0, R1, R2": "", "LSL R0, R1, R2": "", "CLZ R0, R1": "", "CSEL LT, R0, R1, R2": "", "MOVD (R0), R1": "",
	"LDP (R0), (R1, R2)": "", "STP (R1, R2), 16(R0)": "", "FMOVQ 16(R0), F1": "", "FLDPQ (R0), (F1, F2)": "", "UMULH R0, R1, R2": "", "SMULL R0, R1, R2": "",
	"VADD V0.S4, V1.S4, V2.S4": "", "VFMLA V0.S4, V1.S4, V2.S4": "", "VEXT $4, V0.B16, V1.B16, V2.B16": "", "VTBL V0.B16, [V1.B16], V2.B16": "",
	"VZIP1 V0.S4, V1.S4, V2.S4": "", "VLD1 (R0), [V1.S4, V2.S4]": "", "VLD1R (R0), [V1.S4]": "", "VST1.P [V1.S4], 16(R0)": "", "VDUP V0.S[1], V1.S4": "",
	"VMOVI $1, V0.B16": "", "VSHL $3, V0.S4, V1.S4": "", "VUADDLV V0.B16, V1": "", "FADDS F0, F1, F2": "", "FMADDD F0, F1, F2, F3": "", "FCVTSD F0, F1": "",
	"FCMPS F0, F1": "", "FMOVS $1.0, F0": "", "SCVTFWS R0, F1": "", "FCVTZSD F0, R1": "", "FCVTHS F0, F1": "?", "FSQRTS F0, F1": "", "FCSELS EQ, F0, F1, F2": "",
	"VPMULL V0.D1, V1.D1, V2.Q1": "PMULL", "CRC32B R0, R1": "?", "AESE V0.B16, V1.B16": "?", "SHA256H V0.S4, V1, V2": "?", "VEOR3 V0.B16, V1.B16, V2.B16, V3.B16": "?",
	"LDADDALD R0, (R1), R2": "?", "CASD R0, (R1), R2": "?", "MRS CNTVCT_EL0, R0": "?", "VRAX1 V0.D2, V1.D2, V2.D2": "?",

	"WORD $0x4e401400": "?", "WORD $0x4ef9f800": "?", "WORD $0x1ee02800": "?", "WORD $0x4f00fc00": "ASIMDHP", "WORD $0x4f001000": "ASIMDHP", "WORD $0x4e30f800": "ASIMDHP", // half
	"WORD $0x4e809400": "?", "WORD $0x6f80e000": "ASIMDDP", // SDOT, UDOT
	"WORD $0x6e40fc00": "?", "WORD $0x6e40ec00": "?", "WORD $0x0ea16800": "BF16", "WORD $0x1e634000": "BF16", "WORD $0x0fc0f000": "BF16", // bfloat16
	"WORD $0x4e80a400": "?", "WORD $0x6e80c400": "?", "WORD $0x6e808400": "?", "WORD $0x4e20ec00": "FHM", // SMMLA, FCMLA, SQRDMLAH, FMLAL
	"WORD $0x6f80d000": "ASIMDRDM", "WORD $0x4e21e800": "FRINTTS", "WORD $0x1e7e0000": "JSCVT",
	"WORD $0x2518e3e0": "?", "WORD $0x65800000": "?", "WORD $0x04bf5020": "?", "WORD $0x80800000": "?", // SVE and SME
	"WORD $0xb8bfc000": "?", "WORD $0xdac10000": "?", "WORD $0x5ac01800": "?", // LDAPR, PACIA, CTZ
}

func TestARMExtensions(t *testing.T) { checkKinds(t, "arm64", armKinds) }
