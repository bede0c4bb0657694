package simd

// bfloatDots implements kernelSet.bfloatTiles with vectors of pairs. It processes eight rows at once.
//
//go:noescape
func bfloatDots(k, rows int, a *uint16, lda int, b *uint16, blocks int, c *float32, ldc int)
