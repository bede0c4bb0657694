#include "textflag.h"

// DOT adds to each sum of a register the two products of a pair of numbers: VDPBF16PS, which the assembler has no name for.
// Of its operands, Z18 is a pair of A in all lanes, and Z16 or Z17 are pairs of B. See Intel's Software Developer's Manual,
// volume 2, for the encoding.
#define DOT16(p0, modrm) BYTE $0x62; BYTE $p0; BYTE $0x7e; BYTE $0x40; BYTE $0x52; BYTE $modrm
#define DOT17(p0, modrm) BYTE $0x62; BYTE $p0; BYTE $0x76; BYTE $0x40; BYTE $0x52; BYTE $modrm

// STEP takes a pair of the steps of k, at so many bytes of A, and of B.
#define STEP(ofA, ofB) \
	VMOVUPS ofB(BX), Z16 \
	VMOVUPS ofB(R12), Z17 \
	VPBROADCASTD ofA(SI), Z18 \
	DOT16(0xb2, 0xc2) \ // Z0
	DOT17(0xb2, 0xca) \ // Z1
	VPBROADCASTD ofA(SI)(CX*1), Z18 \
	DOT16(0xb2, 0xd2) \
	DOT17(0xb2, 0xda) \
	VPBROADCASTD ofA(SI)(CX*2), Z18 \
	DOT16(0xb2, 0xe2) \
	DOT17(0xb2, 0xea) \
	VPBROADCASTD ofA(SI)(R10*1), Z18 \
	DOT16(0xb2, 0xf2) \
	DOT17(0xb2, 0xfa) \ // Z7
	VPBROADCASTD ofA(DI), Z18 \
	DOT16(0x32, 0xc2) \ // Z8
	DOT17(0x32, 0xca) \
	VPBROADCASTD ofA(DI)(CX*1), Z18 \
	DOT16(0x32, 0xd2) \
	DOT17(0x32, 0xda) \
	VPBROADCASTD ofA(DI)(CX*2), Z18 \
	DOT16(0x32, 0xe2) \
	DOT17(0x32, 0xea) \
	VPBROADCASTD ofA(DI)(R10*1), Z18 \
	DOT16(0x32, 0xf2) \
	DOT17(0x32, 0xfa) // Z15

#define ZERO(z) VPXORD z, z, z

// STORE puts a row of sums into C, and goes to the next row.
#define STORE(left, right) \
	VMOVUPS left, (SI) \
	VMOVUPS right, 64(SI) \
	ADDQ DI, SI

// func bfloatDots(k, rows int, a *uint16, lda int, b *uint16, blocks int, c *float32, ldc int)
TEXT ·bfloatDots(SB), NOSPLIT, $0-64
	MOVQ k+0(FP), R8
	MOVQ lda+24(FP), CX
	LEAQ (CX)(CX*2), R10
	MOVQ b+32(FP), DX

block:
	MOVQ rows+8(FP), R9
	MOVQ a+16(FP), AX
	MOVQ c+48(FP), R11

rows:
	ZERO(Z0)
	ZERO(Z1)
	ZERO(Z2)
	ZERO(Z3)
	ZERO(Z4)
	ZERO(Z5)
	ZERO(Z6)
	ZERO(Z7)
	ZERO(Z8)
	ZERO(Z9)
	ZERO(Z10)
	ZERO(Z11)
	ZERO(Z12)
	ZERO(Z13)
	ZERO(Z14)
	ZERO(Z15)
	MOVQ AX, SI
	LEAQ (AX)(CX*4), DI // the rows from the 5th on
	MOVQ DX, BX
	MOVQ R8, R12
	SHLQ $5, R12
	ADDQ DX, R12 // the columns from the 17th on
	MOVQ R8, R13

step:
	STEP(0, 0)
	STEP(4, 64)
	ADDQ $8, SI
	ADDQ $8, DI
	ADDQ $128, BX
	ADDQ $128, R12
	SUBQ $4, R13
	JNZ  step

	MOVQ R11, SI
	MOVQ ldc+56(FP), DI
	STORE(Z0, Z1)
	STORE(Z2, Z3)
	STORE(Z4, Z5)
	STORE(Z6, Z7)
	STORE(Z8, Z9)
	STORE(Z10, Z11)
	STORE(Z12, Z13)
	STORE(Z14, Z15)
	MOVQ SI, R11
	LEAQ (AX)(CX*8), AX
	SUBQ $8, R9
	JG   rows

	MOVQ R12, DX // the end of the block
	ADDQ $128, c+48(FP)
	DECQ blocks+40(FP)
	JNZ  block
	VZEROUPPER
	RET
