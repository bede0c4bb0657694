package tensor

import (
	"fmt"
	"testing"
)

// BenchmarkNew makes and releases tensors of the sizes that steps are made of: inline, pooled, and large.
func BenchmarkNew(b *testing.B) {
	for _, n := range []int64{1, 256, 1 << 20} {
		b.Run(fmt.Sprint(4*n), func(b *testing.B) {
			pool, shape := NewPool("bench", 1<<40), Shape{n}
			b.ReportAllocs()
			for b.Loop() {
				t, err := New(pool, Float32, shape)
				if err != nil {
					b.Fatal(err)
				}
				t.Release()
			}
		})
	}
}
