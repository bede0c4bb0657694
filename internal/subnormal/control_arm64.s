#include "textflag.h"

// func control() uint64
TEXT ·control(SB), NOSPLIT, $0-8
	MOVD FPCR, R0
	MOVD R0, ret+0(FP)
	RET

// func setControl(v uint64)
TEXT ·setControl(SB), NOSPLIT, $0-8
	MOVD v+0(FP), R0
	MOVD R0, FPCR
	RET
