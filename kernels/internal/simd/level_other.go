//go:build !amd64

package simd

func available() []*kernelSet { return []*kernelSet{&portable} }

func best() *kernelSet { return &portable }
