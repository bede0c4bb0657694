package simd

// bfloatTiles is the tile code of kernelSet.bfloatTiles; config configures the tiles.
//
//go:noescape
func bfloatTiles(k int, a *uint16, lda int, b *uint16, blocks int, c *float32, ldc int, config *byte)

// permitTiles asks Linux to keep the state of tiles for this process, which it does only on request: see its
// Documentation/arch/x86/xstate.rst. It returns 0, or an error of the system call.
func permitTiles() int

// tileConfig configures the tiles: palette 1, all eight with 16 rows of 64 bytes.
var tileConfig = func() (c [64]byte) {
	c[0] = 1
	for i := range 8 {
		c[16+2*i], c[48+i] = 64, 16
	}
	return c
}()

// findTiles returns bfloatTiles as kernelSet has it, or nil if this process cannot use tiles.
func findTiles() func(k, rows int, a *uint16, lda int, b *uint16, blocks int, c *float32, ldc int) {
	if !hasBFloatTiles() || permitTiles() != 0 {
		return nil
	}
	return func(k, _ int, a *uint16, lda int, b *uint16, blocks int, c *float32, ldc int) {
		bfloatTiles(k, a, lda, b, blocks, c, ldc, &tileConfig[0])
	}
}
