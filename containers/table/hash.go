package table

import "encoding/binary"

// Hash64 is TensorFlow's hash of strings (tsl/platform/hash.cc: a MurmurHash64A with its own seed). Dense tables in checkpoints and the op
// StringToHashBucket depend on its exact values.
func Hash64(s string) uint64 {
	const m, r, seed = 0xc6a4a7935bd1e995, 47, 0xDECAFCAFFE
	h := seed ^ uint64(len(s))*m
	b := []byte(s)
	for ; len(b) >= 8; b = b[8:] {
		k := binary.LittleEndian.Uint64(b) * m
		k ^= k >> r
		h = (h ^ k*m) * m
	}
	if len(b) > 0 {
		var rest uint64
		for i, c := range b {
			rest |= uint64(c) << (8 * i)
		}
		h = (h ^ rest) * m
	}
	h ^= h >> r
	h *= m
	return h ^ h>>r
}

// combine is TensorFlow's Hash64Combine.
func combine(a, b uint64) uint64 { return a ^ (b + 0x9e3779b97f4a7800 + a<<10 + a>>4) }
