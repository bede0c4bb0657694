//go:build !amd64 && !arm64

package simd

func available() []*kernelSet { return []*kernelSet{&portable} }

func findBFloatProducts() []bfloatProduct { return nil }

func best([]bfloatProduct) *kernelSet { return &portable }
