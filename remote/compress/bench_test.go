package compress

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// BenchmarkPiece reports the rates in bytes of the tensor, and the ratio to the compressed size.
func BenchmarkPiece(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	weights, sparse, ids := make([]byte, MaxPiece), make([]byte, MaxPiece), make([]byte, MaxPiece)
	for i := 0; i < MaxPiece; i += 4 {
		binary.LittleEndian.PutUint32(weights[i:], math.Float32bits(float32(r.NormFloat64()*0.03)))
		binary.LittleEndian.PutUint32(ids[i:], uint32(r.ExpFloat64()*1000))
		if i>>8%8 == 0 { // every eighth row of 64
			copy(sparse[i:], weights[i:i+4])
		}
	}
	for _, c := range []struct {
		name string
		src  []byte
	}{{"weights", weights}, {"sparse", sparse}, {"ids", ids}} {
		for _, a := range all() {
			out, ok := a.Append(nil, c.src, 4)
			ratio := 1.0
			if ok {
				ratio = float64(len(c.src)) / float64(len(out))
			}
			b.Run(fmt.Sprintf("%s/%v/pack", c.name, a), func(b *testing.B) {
				b.SetBytes(int64(len(c.src)))
				b.ReportAllocs()
				for b.Loop() {
					out, _ = a.Append(out[:0], c.src, 4)
				}
				b.ReportMetric(ratio, "ratio")
			})
			if !ok {
				continue
			}
			b.Run(fmt.Sprintf("%s/%v/unpack", c.name, a), func(b *testing.B) {
				b.SetBytes(int64(len(c.src)))
				b.ReportAllocs()
				back := make([]byte, len(c.src))
				for b.Loop() {
					if err := a.Decompress(back, out, 4); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
