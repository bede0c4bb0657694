package subnormal

// bits is the FPCR bit for flush to zero, of operands and results.
const bits = 1 << 24

// control reads the thread's FPCR, setControl writes it.
//
//go:noescape
func control() uint64

//go:noescape
func setControl(v uint64)
