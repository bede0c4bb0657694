// Package cuda is the gpu.Driver of NVIDIA's cards. Built with the tag cuda, cgo, and CUDA's headers (see headers.sh), it
// calls the driver through gorgonia.org/cu, and itself what cu lacks; otherwise it has no cards and says so.
//
// The driver's library is loaded when Cards is called first, and cuBLAS when a context is asked for it: a program with the
// tag starts and works where neither is there.
package cuda
