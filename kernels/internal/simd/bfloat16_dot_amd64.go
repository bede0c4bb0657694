package simd

import "golang.org/x/sys/cpu"

// bfloatDots is a kernelSet's bfloatTiles, in vectors of pairs. It takes rows eight at a time.
//
//go:noescape
func bfloatDots(k, rows int, a *uint16, lda int, b *uint16, blocks int, c *float32, ldc int)

func init() {
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512BF16 && avx512.bfloatTiles == nil {
		avx512.bfloatTiles = bfloatDots
	}
}
