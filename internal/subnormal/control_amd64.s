#include "textflag.h"

// func control() uint64
TEXT ·control(SB), NOSPLIT, $8-8
	STMXCSR now-8(SP)
	MOVL    now-8(SP), AX
	MOVQ    AX, ret+0(FP)
	RET

// func setControl(v uint64)
TEXT ·setControl(SB), NOSPLIT, $0-8
	LDMXCSR v+0(FP)
	RET
