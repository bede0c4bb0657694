package simd

import (
	"math"
	"testing"
)

// slot holds an update's values for one element, in the order of its function's parameters; the last is the gradient.
type slot [5]float64

func sqr(x float64) float64 { return x * x }

// optimizerCases are the updates with their definitions, element by element in float64. Slots whose index is in positive hold sums of
// squares.
var optimizerCases = []struct {
	name     string
	slots    int // with the gradient
	positive []int
	apply    func(s [][]float32)
	define   func(s slot) slot
}{
	{"momentum", 3, nil,
		func(s [][]float32) { ApplyMomentum(s[0], s[1], s[2], 0.1, 0.9, false) },
		func(s slot) slot {
			a := s[1]*0.9 + s[2]
			return slot{s[0] - 0.1*a, a}
		}},
	{"nesterov", 3, nil,
		func(s [][]float32) { ApplyMomentum(s[0], s[1], s[2], 0.1, 0.9, true) },
		func(s slot) slot {
			a := s[1]*0.9 + s[2]
			return slot{s[0] - s[2]*0.1 - a*0.9*0.1, a}
		}},
	{"rmsprop", 4, []int{1},
		func(s [][]float32) { ApplyRMSProp(s[0], s[1], s[2], s[3], 0.1, 0.75, 0.5, 1e-3) },
		func(s slot) slot {
			ms := s[1] + (sqr(s[3])-s[1])*0.25
			mom := s[2]*0.5 + s[3]*0.1/math.Sqrt(ms+1e-3)
			return slot{s[0] - mom, ms, mom}
		}},
	{"centered rmsprop", 5, []int{2},
		func(s [][]float32) {
			for i := range s[2] { // a mean of squares is at least the square of the mean
				s[2][i] += s[1][i] * s[1][i]
			}
			ApplyCenteredRMSProp(s[0], s[1], s[2], s[3], s[4], 0.1, 0.75, 0.5, 1)
		},
		func(s slot) slot {
			ms := s[2] + sqr(s[1])
			ms += (sqr(s[4]) - ms) * 0.25
			mg := s[1] + (s[4]-s[1])*0.25
			mom := s[3]*0.5 + s[4]*0.1/math.Sqrt(ms-mg*mg+1)
			return slot{s[0] - mom, mg, ms, mom}
		}},
	{"adagrad", 3, []int{1},
		func(s [][]float32) { ApplyAdagrad(s[0], s[1], s[2], 0.1, 0.01) },
		func(s slot) slot {
			a := s[1] + sqr(s[2])
			return slot{s[0] - s[2]*0.1/(math.Sqrt(a)+0.01), a}
		}},
	{"ftrl", 4, []int{1},
		func(s [][]float32) { ApplyFtrl(s[0], s[1], s[2], s[3], 0.5, 2, 0.25, 0.125, false) },
		func(s slot) slot { return followed(s, 0.5, 2, 0.25, 0.125, 1) }},
	{"ftrl by rate", 4, []int{1},
		func(s [][]float32) { ApplyFtrl(s[0], s[1], s[2], s[3], 0.5, 2, 0.25, 0.125, true) },
		func(s slot) slot { return followed(s, 0.5, 2, 0.25, 0.125, 0.5) }},
}

// followed is ftrl's step with a linear term that is kept multiplied by scale.
func followed(s slot, lr, l1, l2, shrinkage, scale float64) slot {
	a := s[1] + sqr(s[3])
	linear := s[2]/scale + s[3] + 2*shrinkage*s[0] - (math.Sqrt(a)-math.Sqrt(s[1]))/lr*s[0]
	v := 0.0
	if math.Abs(linear) > l1 {
		v = (math.Copysign(l1, linear) - linear) / (math.Sqrt(a)/lr + 2*l2)
	}
	return slot{v, a, linear * scale}
}

func TestOptimizers(t *testing.T) {
	for _, c := range optimizerCases {
		t.Run(c.name, func(t *testing.T) {
			eachLength(t, c.slots, func(t *testing.T, s [][]float32) {
				before := make([][]float32, len(s))
				for i := range s {
					for j, x := range ordinary(s[i]) {
						s[i][j] = float32(math.Mod(float64(x), 10))
					}
				}
				for _, i := range c.positive {
					for j, x := range s[i] {
						s[i][j] = float32(math.Abs(float64(x)))
					}
				}
				for i := range s {
					before[i] = clone(s[i])
				}
				c.apply(s)
				for j := range s[0] {
					var in slot
					for i := range s {
						in[i] = float64(before[i][j])
					}
					want := c.define(in)
					for i := range c.slots - 1 {
						if got := float64(s[i][j]); !(math.Abs(got-want[i]) <= 1e-4*(1+math.Abs(want[i]))) {
							t.Fatalf("%v: slot %d is %v, want %v", in, i, got, want[i])
						}
					}
					if s[c.slots-1][j] != before[c.slots-1][j] {
						t.Fatal("the gradient was written to")
					}
				}
			})
		})
	}
}

// TestFtrlWithoutHistory checks that zero state and gradient yield zero, not 0/0, and that a linear term within the bound yields zero,
// whatever the variable was.
func TestFtrlWithoutHistory(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		v, accum, linear, grad := []float32{0, 5}, []float32{0, 0}, []float32{0, 0.5}, []float32{0, 0}
		ApplyFtrl(v, accum, linear, grad, 0.1, 0, 0, 0, false)
		if v[0] != 0 || !(v[1] < 0) {
			t.Errorf("got %v", v)
		}
		v[1] = 5
		ApplyFtrl(v, accum, linear, grad, 0.1, 1, 0, 0, false)
		if v[0] != 0 || v[1] != 0 {
			t.Errorf("got %v within the bound", v)
		}
	})
}

func BenchmarkOptimizers(b *testing.B) {
	for _, c := range optimizerCases {
		b.Run(c.name, func(b *testing.B) {
			s := make([][]float32, c.slots)
			for i := range s {
				s[i] = make([]float32, 1<<18)
			}
			b.SetBytes(int64(4 * len(s[0]) * (2*c.slots - 1))) // all slots are read, and all but the gradient written
			for b.Loop() {
				c.apply(s)
			}
		})
	}
}
