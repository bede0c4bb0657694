package simd

import "unsafe"

// oneTile is a tile that is computed alone. It adds to C if accumulate is set.
type oneTile[T number] func(k int, a *T, lda int, b *T, ldb int, c *T, ldc int, cols int, accumulate int, next uintptr, pieces int, skip int)

// oneByOne makes tiles that compute several tiles from tiles of one row, two rows and so on.
func oneByOne[T number](kernels ...oneTile[T]) (of [maxTileRows + 1]tile[T]) {
	for i, kernel := range kernels {
		rows := i + 1
		of[rows] = func(k int, a *T, lda int, b *T, ldb int, c *T, ldc int, cols int, store storing, next uintptr, pieces int, skip int, tiles int, stepA int, stepNext int) {
			for {
				kernel(k, a, lda, b, ldb, c, ldc, cols, asInt(store == storeSum), next, pieces, skip)
				if tiles--; tiles == 0 {
					return
				}
				a = (*T)(unsafe.Add(unsafe.Pointer(a), stepA))
				c = (*T)(unsafe.Add(unsafe.Pointer(c), rows*ldc))
				next += uintptr(stepNext)
			}
		}
	}
	return of
}

var tilesNEON = tileSet[float32]{
	lanes: 4, rows: 8,
	byRow: [2][maxTileRows + 1]tile[float32]{1: oneByOne[float32](
		gemmN1x2NEON,
		gemmN2x2NEON,
		gemmN3x2NEON,
		gemmN4x2NEON,
		gemmN5x2NEON,
		gemmN6x2NEON,
		gemmN7x2NEON,
		gemmN8x2NEON,
	)},
	byColumn: [2][maxTileRows + 1]tile[float32]{1: oneByOne[float32](
		gemmT1x2NEON,
		gemmT2x2NEON,
		gemmT3x2NEON,
		gemmT4x2NEON,
		gemmT5x2NEON,
		gemmT6x2NEON,
		gemmT7x2NEON,
		gemmT8x2NEON,
	)},
	transpose: transposeNEON, transposeBlockSize: 4, gather: gatherRows,
}

var tiles64NEON = tileSet[float64]{
	lanes: 2, rows: 8,
	byRow: [2][maxTileRows + 1]tile[float64]{1: oneByOne[float64](
		gemmDouble1x2NEON,
		gemmDouble2x2NEON,
		gemmDouble3x2NEON,
		gemmDouble4x2NEON,
		gemmDouble5x2NEON,
		gemmDouble6x2NEON,
		gemmDouble7x2NEON,
		gemmDouble8x2NEON,
	)},
}

var tilesInt32NEON = tileSet[int32]{
	lanes: 4, rows: 8,
	byRow: [2][maxTileRows + 1]tile[int32]{1: oneByOne[int32](
		gemmInt1x2NEON,
		gemmInt2x2NEON,
		gemmInt3x2NEON,
		gemmInt4x2NEON,
		gemmInt5x2NEON,
		gemmInt6x2NEON,
		gemmInt7x2NEON,
		gemmInt8x2NEON,
	)},
}
