//go:build !linux

package simd

import "math/rand/v2"

// arena hands out plain slices where guard pages are not available.
type arena struct{ r *rand.Rand }

func (a *arena) floats(n int) []float32 { return make([]float32, n) }

func (a *arena) release() {}
