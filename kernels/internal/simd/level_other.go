//go:build !amd64 && !arm64

package simd

func available() []*kernelSet { return []*kernelSet{&portable} }

func best() *kernelSet { return &portable }
