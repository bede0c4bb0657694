package simd

var tilesNEON = tileSet[float32]{
	lanes: 4, rows: 8,
	byRow: [2][maxTileRows + 1]tile[float32]{1: {
		nil,
		gemmN1x2NEON,
		gemmN2x2NEON,
		gemmN3x2NEON,
		gemmN4x2NEON,
		gemmN5x2NEON,
		gemmN6x2NEON,
		gemmN7x2NEON,
		gemmN8x2NEON,
	}},
	byColumn: [2][maxTileRows + 1]tile[float32]{1: {
		nil,
		gemmT1x2NEON,
		gemmT2x2NEON,
		gemmT3x2NEON,
		gemmT4x2NEON,
		gemmT5x2NEON,
		gemmT6x2NEON,
		gemmT7x2NEON,
		gemmT8x2NEON,
	}},
	transpose: transposeNEON, transposeBlockSize: 4, gather: gatherRows,
}

var tiles64NEON = tileSet[float64]{
	lanes: 2, rows: 8,
	byRow: [2][maxTileRows + 1]tile[float64]{1: {
		nil,
		gemmDouble1x2NEON,
		gemmDouble2x2NEON,
		gemmDouble3x2NEON,
		gemmDouble4x2NEON,
		gemmDouble5x2NEON,
		gemmDouble6x2NEON,
		gemmDouble7x2NEON,
		gemmDouble8x2NEON,
	}},
}

var tilesInt32NEON = tileSet[int32]{
	lanes: 4, rows: 8,
	byRow: [2][maxTileRows + 1]tile[int32]{1: {
		nil,
		gemmInt1x2NEON,
		gemmInt2x2NEON,
		gemmInt3x2NEON,
		gemmInt4x2NEON,
		gemmInt5x2NEON,
		gemmInt6x2NEON,
		gemmInt7x2NEON,
		gemmInt8x2NEON,
	}},
}
