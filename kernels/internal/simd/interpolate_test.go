package simd

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

func TestMix(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	eachLength(t, 3, func(t *testing.T, s [][]float32) {
		part := randomFloats(r, make([]float32, 1))[0]
		want := make([]float32, len(s[0]))
		mix(want, s[1], s[2], part)
		Mix(s[0], s[1], s[2], part)
		expectExact(t, "Mix", s[0], want, s[1], s[2])
	})
}

// TestInterpolation compares with the portable function, in memory that ends at guard pages.
func TestInterpolation(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(33, 34))
		for n := range maxLength + 1 {
			mem := &arena{r: r}
			src := randomFloats(r, mem.floats(1+r.IntN(50)))
			left, right := randomIndices(r, mem.floats(n), len(src)), randomIndices(r, mem.floats(n), len(src))
			p := NewInterpolation(left, right, randomFloats(r, mem.floats(n)))
			dst, want := mem.floats(n), make([]float32, n)
			p.row(want, src)
			p.Row(dst, src)
			expectExact(t, "Row", dst, want)
			mem.release()
		}
	})
}

// randomIndices fills memory with integers from 0 to limit-1.
func randomIndices(r *rand.Rand, memory []float32, limit int) []int32 {
	list := unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(memory))), len(memory))
	for i := range list {
		list[i] = r.Int32N(int32(limit))
	}
	return list
}

func TestInterpolationRefusesIndices(t *testing.T) {
	for name, f := range map[string]func(){
		"negative": func() { NewInterpolation([]int32{0}, []int32{-1}, []float32{0}) },
		"lengths":  func() { NewInterpolation([]int32{0}, []int32{0, 1}, []float32{0}) },
		"source": func() {
			p := NewInterpolation([]int32{0}, []int32{3}, []float32{0})
			p.Row(make([]float32, 1), make([]float32, 3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("did not panic")
				}
			}()
			f()
		})
	}
}
