//go:build !amd64 && !arm64

package simd

func available() []*kernelSet { return []*kernelSet{&portable} }

func findBFloatTiles() []bfloatTiling { return nil }

func best([]bfloatTiling) *kernelSet { return &portable }
