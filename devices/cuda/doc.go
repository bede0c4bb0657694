// Package cuda is the gpu.Driver for NVIDIA cards. It requires the tag cuda, cgo, and CUDA's headers (see headers.sh). It calls the driver
// through gorgonia.org/cu, and directly where cu lacks a function. Built without the tag it has no cards, and its error says so.
//
// The driver's library is loaded at the first call of Cards, and cuBLAS when a context first needs it. A program built with the tag starts
// and works without either.
package cuda
