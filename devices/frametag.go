package devices

import "encoding/binary"

// foreignTag returns the number by which TensorFlow's executor calls a frame in the keys of what its nodes send and receive: it is entered by
// name from an iteration of a parent. (PropagatorState::FindOrCreateChildFrame.)
func foreignTag(parent uint64, iter int64, name string) uint64 {
	return combine(parent, combine(uint64(iter), hash64(name)))
}

// combine is TensorFlow's Hash64Combine.
func combine(a, b uint64) uint64 { return a ^ (b + 0x9e3779b97f4a7800 + a<<10 + a>>4) }

// hash64 is TensorFlow's Hash64: MurmurHash64A with a seed of its own.
func hash64(s string) uint64 {
	const (
		seed = 0xdecafcaffe
		m    = 0xc6a4a7935bd1e995
		r    = 47
	)
	b := []byte(s)
	h := seed ^ uint64(len(b))*m
	for ; len(b) >= 8; b = b[8:] {
		k := binary.LittleEndian.Uint64(b) * m
		h = (h ^ (k^k>>r)*m) * m
	}
	if len(b) > 0 {
		var rest [8]byte
		copy(rest[:], b)
		h = (h ^ binary.LittleEndian.Uint64(rest[:])) * m
	}
	h = (h ^ h>>r) * m
	return h ^ h>>r
}
