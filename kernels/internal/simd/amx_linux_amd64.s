#include "textflag.h"

// The tile instructions, which the assembler has no names for. Tiles 0 to 3 are a block of C, 4 and 5 of A, 6 and 7 of B.
// See Intel's Software Developer's Manual, volume 1, chapter 18, and volume 2 for the encodings.

#define CONFIGURE_AX BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0x00 // LDTILECFG (AX)
#define RELEASE BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0xc0 // TILERELEASE
#define ZERO(modrm) BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $modrm // TILEZERO
#define LOAD(modrm, sib) BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x4b; BYTE $modrm; BYTE $sib // TILELOADD
#define STORE(modrm, sib) BYTE $0xc4; BYTE $0xe2; BYTE $0x7a; BYTE $0x4b; BYTE $modrm; BYTE $sib // TILESTORED
#define MULTIPLY(vex, modrm) BYTE $0xc4; BYTE $0xe2; BYTE $vex; BYTE $0x5c; BYTE $modrm // TDPBF16PS

// func bfloatTiles(k int, a *uint16, lda int, b *uint16, blocks int, c *float32, ldc int, config *byte)
TEXT ·bfloatTiles(SB), NOSPLIT, $0-64
	MOVQ config+56(FP), AX
	CONFIGURE_AX
	MOVQ k+0(FP), R8
	MOVQ lda+16(FP), CX
	MOVQ b+24(FP), DX
	MOVQ blocks+32(FP), R9
	MOVQ c+40(FP), R10
	MOVQ ldc+48(FP), R11
	MOVQ $64, AX

block:
	MOVQ a+8(FP), SI
	MOVQ CX, DI
	SHLQ $4, DI
	ADDQ SI, DI // the rows from the 17th on
	MOVQ R8, BX
	SHLQ $5, BX
	ADDQ DX, BX // the columns from the 17th on
	MOVQ BX, R12
	ADDQ BX, R12
	SUBQ DX, R12 // the next block of B
	ZERO(0xc0)
	ZERO(0xc8)
	ZERO(0xd0)
	ZERO(0xd8)
	MOVQ R8, R13

step:
	LOAD(0x24, 0x0e)     // (SI)(CX*1), tile 4
	LOAD(0x34, 0x02)     // (DX)(AX*1), tile 6
	MULTIPLY(0x4a, 0xc4) // 6, 4, 0
	LOAD(0x3c, 0x03)     // (BX)(AX*1), tile 7
	MULTIPLY(0x42, 0xcc) // 7, 4, 1
	LOAD(0x2c, 0x0f)     // (DI)(CX*1), tile 5
	MULTIPLY(0x4a, 0xd5) // 6, 5, 2
	MULTIPLY(0x42, 0xdd) // 7, 5, 3
	ADDQ $64, SI
	ADDQ $64, DI
	ADDQ $1024, DX
	ADDQ $1024, BX
	SUBQ $32, R13
	JNZ  step

	MOVQ R12, DX
	MOVQ CX, R12
	MOVQ R11, CX
	MOVQ R10, SI
	LEAQ 64(SI), DI
	STORE(0x04, 0x0e) // tile 0, (SI)(CX*1)
	STORE(0x0c, 0x0f)
	MOVQ R11, R13
	SHLQ $4, R13
	ADDQ R13, SI
	ADDQ R13, DI
	STORE(0x14, 0x0e)
	STORE(0x1c, 0x0f)
	MOVQ R12, CX
	ADDQ $128, R10
	DECQ R9
	JNZ  block
	RELEASE
	RET

// func permitTiles() int
TEXT ·permitTiles(SB), NOSPLIT, $0-8
	MOVQ $158, AX    // arch_prctl
	MOVQ $0x1023, DI // ARCH_REQ_XCOMP_PERM
	MOVQ $18, SI     // XFEATURE_XTILEDATA
	SYSCALL
	MOVQ AX, ret+0(FP)
	RET
