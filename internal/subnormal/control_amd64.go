package subnormal

// bits are the MXCSR bits for flush to zero and denormals are zeros.
const bits = 1<<15 | 1<<6

// control reads the thread's MXCSR, setControl writes it.
//
//go:noescape
func control() uint64

//go:noescape
func setControl(v uint64)
