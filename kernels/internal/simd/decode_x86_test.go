package simd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Each row names the extension that some encodings belong to, as golang.org/x/sys/cpu has it; the first that matches counts. An encoding
// without a row is an error, so what is new has to be looked up in Intel's manual. "SSE2" is what every amd64 processor has, AVX is in AVX2.
type encodingRow struct {
	opcodes   string // hexadecimal, and ranges of them
	prefixes  string // which of the prefixes none, 66, F3 and F2, as digits 0 to 3; "" means any
	w         string // 0 or 1; "" means both
	extension string
}

var (
	// The second byte of legacy instructions, after 0F.
	legacyRows = []encodingRow{
		{"b8", "2", "", "POPCNT"}, {"bc bd", "2", "", "BMI1"}, // POPCNT, TZCNT, LZCNT
		{"12", "23", "", "SSE3"}, {"16", "2", "", "SSE3"}, {"7c 7d d0", "", "", "SSE3"}, {"f0", "3", "", "SSE3"},
		{"05 0b 18 1f 31 a2", "", "", "SSE2"},                         // SYSCALL, UD2, PREFETCH, NOP, RDTSC, CPUID
		{"10-17 28-2f 40-7f 80-9f c2-c6 d1-ef f1-fe", "", "", "SSE2"}, // CMOV, vectors, jumps, SETcc
		{"a3-a5 ab-ad af b0 b1 b3 b6 b7 ba-be c0 c1 c8-cf", "", "", "SSE2"},
	}
	vexRows = [4][]encodingRow{
		1: {
			{"41 42 45-47", "0", "0", "AVX512F"}, {"44", "0", "0", "AVX512F"}, {"41 42 44-47", "1", "0", "AVX512DQ"}, {"41 42 44-47", "01", "1", "AVX512BW"},
			{"4a", "01", "0", "AVX512DQ"}, {"4a", "01", "1", "AVX512BW"},
			{"4b", "1", "0", "AVX512F"}, {"4b", "0", "", "AVX512BW"},
			{"90-93 98", "0", "0", "AVX512F"}, {"90-93 98", "1", "0", "AVX512DQ"}, {"99", "01", "0", "AVX512DQ"},
			{"92 93", "3", "", "AVX512BW"}, {"90-93 98 99", "01", "1", "AVX512BW"},
			{"10-17 28-2f 50-7f ae c2 c4-c6 d0-fe", "", "", "AVX2"},
		},
		2: {
			{"13", "1", "", "F16C"},
			{"96-9f a6-af b6-bf", "1", "", "FMA"},
			{"f5", "023", "", "BMI2"}, {"f6", "3", "", "BMI2"}, {"f7", "123", "", "BMI2"}, {"f2 f3 f7", "0", "", "BMI1"},
			{"49", "013", "", "AMXTile"}, {"4b", "123", "", "AMXTile"}, {"5c", "2", "", "AMXBF16"}, {"5e", "", "", "AMXInt8"},
			{"50-53", "1", "", "AVXVNNI"}, {"50 51", "023", "", "AVXVNNIInt8"}, {"b4 b5", "1", "", "AVXIFMA"},
			{"cf", "1", "", "AVX512GFNI"}, {"dc-df", "1", "", "AVX512VAES"}, {"db", "1", "", "AES"},
			{"00-0f 16-1a 1c-1e 20-25 28-41 45-47 58-5a 78 79 8c 8e 90-93", "1", "", "AVX2"},
		},
		3: {
			{"f0", "3", "", "BMI2"}, {"1d", "1", "", "F16C"}, {"44", "1", "", "AVX512VPCLMULQDQ"}, {"ce cf", "1", "", "AVX512GFNI"}, {"df", "1", "", "AES"},
			{"30 32", "1", "0", "AVX512DQ"}, {"30 32", "1", "1", "AVX512F"}, {"31 33", "1", "", "AVX512BW"},
			{"00-02 04-06 08-0f 14-19 20-22 38 39 40-42 46 4a-4c 60-63", "1", "", "AVX2"},
		},
	}
	evexRows = [4][]encodingRow{
		1: {
			{"60 61 63-65 67-69 6b 71 74 75 c4 c5 d1 d5 d8-da dc-de e0 e1 e3-e5 e8-ea ec-ee f1 f5 f6 f8 f9 fc fd", "1", "", "AVX512BW"},
			{"6f 7f", "3", "", "AVX512BW"}, {"70", "23", "", "AVX512BW"},
			{"54-57", "01", "", "AVX512DQ"}, {"78-7b", "1", "", "AVX512DQ"}, {"7a", "23", "1", "AVX512DQ"}, {"e6", "2", "1", "AVX512DQ"}, {"5b", "0", "1", "AVX512DQ"},
			{"10-17 28-2f 51 58-5f 62 66 6a 6c-70 72 73 76 78-7b 7e 7f c2 c6 d2-d4 d6 db df e2 e6 e7 eb ef f2-f4 fa fb fe", "", "", "AVX512F"},
		},
		2: {
			{"00 04 0b 1c 1d 20 26 2b 30 38 3a 3c 3e 66 78-7b", "1", "", "AVX512BW"}, {"10-12", "1", "1", "AVX512BW"},
			{"75 7d 8d", "1", "1", "AVX512BW"}, {"75 7d 8d", "1", "0", "AVX512VBMI"}, {"83", "1", "1", "AVX512VBMI"},
			{"19 59 1b 5b", "1", "0", "AVX512DQ"}, {"1a 5a 40", "1", "1", "AVX512DQ"},
			{"44 c4", "1", "", "AVX512CD"}, {"2a 3a", "2", "", "AVX512CD"},
			{"50-53", "1", "", "AVX512VNNI"}, {"54 8f", "1", "", "AVX512BITALG"}, {"55", "1", "", "AVX512VPOPCNTDQ"},
			{"62 63 70-73", "1", "", "AVX512VBMI2"}, {"b4 b5", "1", "", "AVX512IFMA"}, {"c8 ca-cd", "1", "", "AVX512ER"}, {"c6 c7", "1", "", "AVX512PF"},
			{"cf", "1", "", "AVX512GFNI"}, {"dc-df", "1", "", "AVX512VAES"}, {"52", "2", "0", "AVX512BF16"}, {"72", "23", "0", "AVX512BF16"},
			{"10 20 26 28-30", "2", "", "AVX512BW"}, {"38 39", "2", "", "AVX512DQ"}, {"11-15 21-25 27 31-35", "2", "", "AVX512F"},
			{"0c 0d 13-16 18-1b 1e 1f 21-25 27-2a 2c 2d 31-37 39 3b 3d 3f 40 42 43 45-47 4c-4f 58-5b 64 65 76 77 7c 7e 7f 88-8b 90-93 96-9f a0-a3 a6-af b6-bf",
				"1", "", "AVX512F"},
		},
		3: {
			{"0f 14 15 20 3e 3f 42", "1", "", "AVX512BW"}, {"16 22 50 51 56 57 66 67", "01", "", "AVX512DQ"},
			{"18 19 38 39", "1", "1", "AVX512DQ"}, {"1a 1b 3a 3b", "1", "0", "AVX512DQ"},
			{"44", "1", "", "AVX512VPCLMULQDQ"}, {"70-73", "1", "", "AVX512VBMI2"}, {"ce cf", "1", "", "AVX512GFNI"},
			{"00 01 03-05 08-0b 17-1b 1d-1f 21 23 25-27 38-3b 43 54 55", "1", "", "AVX512F"},
		},
	}
	// Instructions of a single number or of 128 bits alone: they need no AVX512VL.
	evexScalars = [4][]encodingRow{
		1: {
			{"10 11 2a 2c 2d 51 58-5a 5c-5f 78 79 7b c2", "23", "", ""}, {"2e 2f 12 13 16 17 6e 7e d6 c4 c5", "01", "", ""}, {"7e", "2", "", ""},
		},
		2: {{"2d 43 4d 4f 99 9b 9d 9f a9 ab ad af b9 bb bd bf cb cd", "1", "", ""}},
		3: {{"0a 0b 14-17 20-22 27 51 55 57 67", "1", "", ""}},
	}
)

// opcodeSets are the rows' opcodes, by their text.
var opcodeSets sync.Map

func (r encodingRow) has(opcode byte) bool {
	if set, ok := opcodeSets.Load(r.opcodes); ok {
		return set.(*[256]bool)[opcode]
	}
	set := new([256]bool)
	for _, word := range strings.Fields(r.opcodes) {
		from, to, both := strings.Cut(word, "-")
		if !both {
			to = from
		}
		first, err := strconv.ParseUint(from, 16, 8)
		last, err2 := strconv.ParseUint(to, 16, 8)
		if err != nil || err2 != nil {
			panic(r.opcodes)
		}
		for i := first; i <= last; i++ {
			set[i] = true
		}
	}
	opcodeSets.Store(r.opcodes, set)
	return set[opcode]
}

// find returns the extension of an encoding. prefix is 0 for none, 1 for 66, 2 for F3, 3 for F2.
func find(rows []encodingRow, opcode, prefix, w byte) (extension string, ok bool) {
	for _, r := range rows {
		if r.has(opcode) && (r.prefixes == "" || strings.IndexByte(r.prefixes, '0'+prefix) >= 0) && (r.w == "" || r.w[0] == '0'+w) {
			return r.extension, true
		}
	}
	return "", false
}

// x86Extensions decodes the instruction that code begins with, in 64-bit mode. It returns the processor features that the instruction needs,
// and the instruction's length if it has a VEX or EVEX prefix; otherwise, 0.
func x86Extensions(code []byte) (extensions []string, length int, err error) {
	if len(code) == 0 {
		return nil, 0, fmt.Errorf("no instruction")
	}
	unknown := func() ([]string, int, error) {
		return nil, 0, fmt.Errorf("% x is in no table of this test", code[:min(len(code), 12)])
	}
	code = append(slices.Clone(code), make([]byte, 16)...) // reading is always in range
	switch code[0] {
	case 0xc5:
		ext, ok := find(vexRows[1], code[2], code[1]&3, 0)
		if code[2] == 0x77 {
			return []string{"AVX2"}, 3, nil // VZEROUPPER
		}
		if !ok {
			return unknown()
		}
		return []string{ext}, 3 + operandBytes(1, code[2], code[3:]), nil
	case 0xc4:
		m := code[1] & 0x1f
		if m < 1 || m > 3 {
			return unknown()
		}
		ext, ok := find(vexRows[m], code[3], code[2]&3, code[2]>>7)
		if !ok {
			return unknown()
		}
		return []string{ext}, 4 + operandBytes(m, code[3], code[4:]), nil
	case 0x62:
		m, prefix, w := code[1]&7, code[2]&3, code[2]>>7
		if m < 1 || m > 3 { // 5 and 6 are AVX512-FP16, 4 is APX
			return unknown()
		}
		ext, ok := find(evexRows[m], code[4], prefix, w)
		if !ok {
			return unknown()
		}
		extensions = []string{ext}
		rounds := code[3]&0x10 != 0 && code[5]>>6 == 3 // then the length's bits are the rounding
		_, scalar := find(evexScalars[m], code[4], prefix, w)
		if vectorLength := code[3] >> 5 & 3; vectorLength < 2 && !rounds && !scalar {
			extensions = append(extensions, "AVX512VL")
		}
		return extensions, 5 + operandBytes(m, code[4], code[5:]), nil
	}
	var prefix byte
	i := 0
	for ; ; i++ {
		switch code[i] {
		case 0x66:
			prefix = max(prefix, 1)
			continue
		case 0xf3:
			prefix = 2
			continue
		case 0xf2:
			prefix = 3
			continue
		case 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x67, 0xf0:
			continue
		}
		break
	}
	if code[i]&0xf0 == 0x40 { // REX
		i++
	}
	switch opcode, modrm := code[i+1], code[i+2]; {
	case code[i] == 0x8f && opcode&0x38 != 0, // XOP
		(code[i] == 0xc6 || code[i] == 0xc7) && opcode == 0xf8,   // XABORT, XBEGIN
		slices.Contains([]byte{0x62, 0xc4, 0xc5, 0xd5}, code[i]): // after another prefix; REX2
		return unknown()
	case code[i] != 0x0f:
		return []string{"SSE2"}, 0, nil
	case opcode == 0xae: // of the register, LDMXCSR and STMXCSR, and the fences
		if prefix == 0 && (modrm>>6 != 3 && (modrm>>3&7 == 2 || modrm>>3&7 == 3) || modrm>>6 == 3 && modrm>>3&7 >= 5) {
			return []string{"SSE2"}, 0, nil
		}
		return unknown()
	default:
		ext, ok := find(legacyRows, opcode, prefix, 0)
		if !ok {
			return unknown()
		}
		return []string{ext}, 0, nil
	}
}

// operandBytes returns the length of what follows the opcode of a VEX or EVEX instruction: ModRM, SIB, the displacement and the immediate. A
// displacement of EVEX has one byte or four, too.
func operandBytes(opcodeMap, opcode byte, rest []byte) int {
	n := 1
	mod, rm := rest[0]>>6, rest[0]&7
	if mod != 3 && rm == 4 {
		n++
		if mod == 0 && rest[1]&7 == 5 {
			n += 4
		}
	}
	switch {
	case mod == 1:
		n++
	case mod == 2, mod == 0 && rm == 5:
		n += 4
	}
	if opcodeMap == 3 || opcodeMap == 1 && (opcode >= 0x70 && opcode <= 0x73 || opcode == 0xc2 || opcode >= 0xc4 && opcode <= 0xc6) {
		n++
	}
	return n
}

// x86Kinds are an instruction of each kind, with the extensions that it needs; "?" if the test has to refuse it.
var x86Kinds = map[string]string{
	"ADDQ AX, BX": "SSE2", "CMOVQLT AX, BX": "SSE2", "PADDB X0, X1": "SSE2", "LDMXCSR (AX)": "SSE2", "PREFETCHT0 (AX)": "SSE2", "MFENCE": "SSE2",
	"LOCK; XADDQ AX, (BX)": "SSE2", "BSFQ AX, BX": "SSE2", "REP; MOVSB": "SSE2",
	"POPCNTQ AX, BX": "POPCNT", "TZCNTQ AX, BX": "BMI1", "ADCXQ AX, BX": "?", "MOVBEQ (AX), BX": "?", "CRC32B AX, BX": "?", "AESENC X0, X1": "?",
	"PSHUFB X0, X1": "?", "ROUNDPS $1, X0, X1": "?", "XGETBV": "?", "SHA256MSG1 X0, X1": "?", "PCLMULQDQ $1, X0, X1": "?", "XBEGIN 0(PC)": "?",
	"RDRANDQ AX": "?", "CMPXCHG16B (AX)": "?", "ADDSUBPS X0, X1": "SSE3", "MOVDDUP X0, X1": "SSE3",
	"VADDPS Y0, Y1, Y15": "AVX2", "VPADDW Y0, Y9, Y1": "AVX2", "VPSRLVD Y0, Y1, Y2": "AVX2", "VGATHERDPS Y0, (AX)(Y1*4), Y2": "AVX2", "VZEROUPPER": "AVX2",
	"VFMADD231PS Y0, Y1, Y2": "FMA", "VFNMSUB132SD X0, X1, X2": "FMA",
	"BZHIQ AX, BX, CX": "BMI2", "MULXQ AX, BX, CX": "BMI2", "RORXQ $1, AX, BX": "BMI2", "SHLXQ AX, BX, CX": "BMI2", "PDEPQ AX, BX, CX": "BMI2",
	"ANDNQ AX, BX, CX": "BMI1", "BEXTRQ AX, BX, CX": "BMI1", "BLSRQ AX, BX": "BMI1",
	"VCVTPH2PS X0, Y1": "F16C", "VCVTPS2PH $0, Y0, X1": "F16C", "VAESENC X0, X1, X2": "AVX512VAES", "VPCLMULQDQ $0, X0, X1, X2": "AVX512VPCLMULQDQ",
	"KXORW K1, K2, K3": "AVX512F", "KXORB K1, K2, K3": "AVX512DQ", "KXORQ K1, K2, K3": "AVX512BW", "KMOVW AX, K1": "AVX512F", "KMOVD AX, K1": "AVX512BW",
	"KMOVQ K1, AX": "AVX512BW", "KMOVB K1, (AX)": "AVX512DQ", "KORTESTW K1, K2": "AVX512F", "KTESTW K1, K2": "AVX512DQ", "KSHIFTLQ $1, K1, K2": "AVX512BW",
	"KUNPCKBW K1, K2, K3": "AVX512F", "KADDW K1, K2, K3": "AVX512DQ", "KNOTD K1, K2": "AVX512BW", "KSHIFTRW $1, K1, K2": "AVX512F", "KSHIFTRB $1, K1, K2": "AVX512DQ",
	"VADDPS Z0, Z1, Z2": "AVX512F", "VADDPS Y16, Y1, Y2": "AVX512F AVX512VL", "VADDPS.RN_SAE Z0, Z1, Z2": "AVX512F", "VADDSS X16, X1, X2": "AVX512F",
	"VADDPS X0, X1, K1, X2": "AVX512F AVX512VL", "VMOVUPS X16, (AX)": "AVX512F AVX512VL", "VMOVSS X16, (AX)": "AVX512F", "VMOVQ X16, AX": "AVX512F",
	"VPADDW X16, X1, X2": "AVX512BW AVX512VL", "VPADDW Z1, Z2, Z3": "AVX512BW", "VXORPS Z0, Z1, Z2": "AVX512DQ", "VPMULLQ Z0, Z1, Z2": "AVX512DQ",
	"VPMULLD Z0, Z1, Z2": "AVX512F", "VINSERTF32X8 $1, Y0, Z1, Z2": "AVX512DQ", "VINSERTF64X4 $1, Y0, Z1, Z2": "AVX512F", "VCVTQQ2PD Z0, Z1": "AVX512DQ",
	"VPMOVDW Z0, Y1": "AVX512F", "VPMOVWB Z0, Y1": "AVX512BW", "VMOVDQU8 Z0, Z1": "AVX512BW", "VMOVDQU32 Z0, Z1": "AVX512F", "VPERMW Z0, Z1, Z2": "AVX512BW",
	"VPERMB Z0, Z1, Z2": "AVX512VBMI", "VPERMI2B Z0, Z1, Z2": "AVX512VBMI", "VPERMI2W Z0, Z1, Z2": "AVX512BW", "VPMULTISHIFTQB Z0, Z1, Z2": "AVX512VBMI",
	"VPCOMPRESSB Z0, Z1": "AVX512VBMI2", "VPCOMPRESSD Z0, Z1": "AVX512F", "VPSHLDVW Z0, Z1, Z2": "AVX512VBMI2", "VPSHRDD $1, Z0, Z1, Z2": "AVX512VBMI2",
	"VPDPBUSD Z0, Z1, Z2": "AVX512VNNI", "VPMADD52LUQ Z0, Z1, Z2": "AVX512IFMA", "VPOPCNTB Z0, Z1": "AVX512BITALG", "VPOPCNTD Z0, Z1": "AVX512VPOPCNTDQ",
	"VPSHUFBITQMB Z0, Z1, K1": "AVX512BITALG", "VPCONFLICTD Z0, Z1": "AVX512CD", "VPLZCNTD Z0, Z1": "AVX512CD", "VPBROADCASTMW2D K1, Z0": "AVX512CD",
	"VGF2P8MULB Z0, Z1, Z2": "AVX512GFNI", "VAESENC Z0, Z1, Z2": "AVX512VAES", "VPCLMULQDQ $1, Z0, Z1, Z2": "AVX512VPCLMULQDQ", "VEXP2PS Z0, Z1": "AVX512ER",
	"VRCP14PS Z0, Z1": "AVX512F", "VRCP28PS Z0, Z1": "AVX512ER", "VRANGEPS $1, Z0, Z1, Z2": "AVX512DQ", "VFPCLASSPSZ $1, Z0, K1": "AVX512DQ",
	"VPTERNLOGD $1, Z0, Z1, Z2": "AVX512F", "VPCMPUB $1, Z0, Z1, K1": "AVX512BW", "VPCMPUD $1, Z0, Z1, K1": "AVX512F", "VDBPSADBW $1, Z0, Z1, Z2": "AVX512BW",
	"VPSCATTERDD Z0, K1, (AX)(Z1*4)": "AVX512F", "VPTESTMB Z0, Z1, K1": "AVX512BW", "VPTESTMD Z0, Z1, K1": "AVX512F", "VCVTPS2UDQ Z0, Z1": "AVX512F",
	"VCVTPS2QQ Y0, Z1": "AVX512DQ", "VSCALEFPS Z0, Z1, Z2": "AVX512F", "VPROLD $1, Z0, Z1": "AVX512F", "VPSRAVW Z0, Z1, Z2": "AVX512BW", "VPSRAQ $1, Z0, Z1": "AVX512F",
	"VCVTTPS2DQ Y16, Y1": "AVX512F AVX512VL", "VCVTUDQ2PD X0, Y1": "AVX512F AVX512VL", "VPBROADCASTD AX, X1": "AVX512F AVX512VL", "VPMOVDW Y0, X1": "AVX512F AVX512VL",
	// The assembler has no names for these: VDPBF16PS, TDPBF16PS, TDPBUSD, VPDPBUSD of VEX, VADDPH.
	"BYTE $0x62; BYTE $0xf2; BYTE $0x76; BYTE $0x48; BYTE $0x52; BYTE $0xc2": "AVX512BF16", "BYTE $0xc4; BYTE $0xe2; BYTE $0x4a; BYTE $0x5c; BYTE $0xc4": "AMXBF16",
	"BYTE $0xc4; BYTE $0xe2; BYTE $0x49; BYTE $0x5e; BYTE $0xc4": "AMXInt8", "BYTE $0xc4; BYTE $0xe2; BYTE $0x75; BYTE $0x50; BYTE $0xc2": "AVXVNNI",
	"BYTE $0x62; BYTE $0xf5; BYTE $0x74; BYTE $0x48; BYTE $0x58; BYTE $0xc2": "?",
}

func TestX86Extensions(t *testing.T) { checkKinds(t, "amd64", x86Kinds) }
