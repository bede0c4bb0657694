package simd

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What processors with AVX2 but without AVX-512 lack: registers from 16 on, 512-bit registers, masks, and instructions that only an EVEX
// prefix encodes. The assembler accepts all of them everywhere.
var (
	onlyAVX512Operand = regexp.MustCompile(`\b([XYZ](1[6-9]|2\d|3[01])|Z\d|Z1[0-5]|K[0-7])\b`)
	// beyondAVX512 matches instructions of extensions that are not detected: VBMI, VNNI, IFMA, CD, BITALG, BF16, ER.
	beyondAVX512          = regexp.MustCompile(`^(VPERM([IT]2)?B|VPMULTISHIFTQB|VPCOMPRESS[BW]|VPEXPAND[BW]|VPSH[LR]D.*|VPDP.*|VPOPCNT.*|VPLZCNT.*|VPCONFLICT.*|VPMADD52.*|VDPBF16PS|VCVTNE.*|VP2INTERSECT.*|VPSHUFBITQMB|VRCP28.*|VRSQRT28.*|VEXP2.*)$`)
	onlyAVX512Instruction = regexp.MustCompile(`^(K[A-Z]+[BWDQ]|VALIGN[DQ]|VBLENDMP[SD]|VBROADCAST[FI](32|64)X\d|VCOMPRESS.*|VCVT(U?QQ2|UDQ2|T?P[SD]2(U?QQ|UDQ)|USI2|T?S[SD]2USI|NE.*).*|` +
		`VDBPSADBW|VDPBF16PS|VEXP.*|VEXTRACT[FI](32|64)X\d|VFIXUPIMM.*|VFPCLASS.*|VGETEXP.*|VGETMANT.*|VINSERT[FI](32|64)X\d|VMOVDQ[AU](8|16|32|64)|VP2INTERSECT.*|` +
		`VPABSQ|VPAND[DQ]|VPANDN[DQ]|VPBLENDM[BWDQ]|VPBROADCASTM.*|VPCMPU?[BWDQ]|VPCOMPRESS.*|VPCONFLICT.*|VPDP.*|VPERM([BW]|[IT]2.*)|VPEXPAND.*|VPLZCNT.*|VPMADD52.*|` +
		`VPM(AX|IN)[SU]Q|VPMOV(U?S)?(WB|DB|DW|QB|QW|QD)|VPMOVM2.|VPMOV[BWDQ]2M|VPMULLQ|VPMULTISHIFTQB|VPOPCNT.*|VPOR[DQ]|VPRO[LR]V?[DQ]|VPSCATTER.*|VPSHLD.*|VPSHRD.*|` +
		`VPSHUFBITQMB|VPSLLVW|VPSRAQ|VPSRAV[WQ]|VPSRLVW|VPTERNLOG[DQ]|VPTESTN?M[BWDQ]|VPXOR[DQ]|VRANGE.*|VRCP(14|28).*|VREDUCE.*|VRNDSCALE.*|VRSQRT(14|28).*|` +
		`VSCALEF.*|VSCATTER.*|VSHUF[FI](32|64)X\d)$`)
)

// levelOf returns the level of a function, by its name in the assembly.
func levelOf(name string) string {
	switch {
	case strings.HasSuffix(name, "AVX512"), name == "bfloatDots", name == "bfloatTiles": // for these, the callers check further processor features
		return "avx512"
	}
	return "avx2"
}

func TestInstructionsFitTheirLevel(t *testing.T) {
	files, err := filepath.Glob("*_amd64.s")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	text := regexp.MustCompile(`^TEXT ·(\w+)\(SB\)`)
	functions := map[string]int{}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		function := ""
		for lines := bufio.NewScanner(f); lines.Scan(); {
			line, _, _ := strings.Cut(lines.Text(), "//")
			if m := text.FindStringSubmatch(line); m != nil {
				function = m[1]
				functions[levelOf(function)]++
				continue
			}
			words := strings.Fields(line)
			if function == "" || len(words) == 0 {
				continue
			}
			if beyondAVX512.MatchString(words[0]) {
				t.Errorf("%s: %s has %q, which not all processors with AVX-512 know", path, function, words[0])
			}
			if levelOf(function) == "avx512" {
				continue
			}
			if onlyAVX512Operand.MatchString(line) || onlyAVX512Instruction.MatchString(words[0]) {
				t.Errorf("%s: %s has %q, which processors without AVX-512 do not know", path, function, strings.Join(words, " "))
			}
		}
	}
	if functions["avx2"] < 100 || functions["avx512"] < 100 {
		t.Errorf("only %v functions were found", functions)
	}
}
