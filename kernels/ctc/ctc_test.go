package ctc

import (
	"errors"
	"math"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestLossIsTheSumOfAllWays compares the loss of short sequences with the sum over all possible outputs.
func TestLossIsTheSumOfAllWays(t *testing.T) {
	const classes, steps = 3, 4
	logits := []float64{0.3, -1, 0.8, 1.2, 0.1, -0.4, -0.7, 0.9, 0.2, 0.5, 0.6, -0.3}
	for _, merge := range []bool{true, false} {
		for _, labels := range [][]int32{{0}, {0, 1}, {1, 1}, {1, 0, 1}} {
			k := lossKernel[float64]{merge: merge}
			places, err := k.appendPath(nil, labels, 0, classes)
			if err != nil {
				t.Fatal(err)
			}
			p := path{places, steps}
			n, err := workOf([]path{p}, classes)
			if err != nil {
				t.Fatal(err)
			}
			got := newLattice(p, classes, merge, make([]float64, n)).loss(logits, make([]float64, len(logits)), classes)
			if want := -math.Log(sumOfWays(logits, classes, steps, labels, merge)); math.Abs(got-want) > 1e-6 {
				t.Errorf("merge %v, labels %v: %v, want %v", merge, labels, got, want)
			}
		}
	}
}

// sumOfWays sums the probabilities of all outputs that spell the labels.
func sumOfWays(logits []float64, classes, steps int, labels []int32, merge bool) (sum float64) {
	y := make([]float64, len(logits))
	for t := range steps {
		softmax(y[t*classes:][:classes], logits[t*classes:][:classes])
	}
	for way := range int(math.Pow(float64(classes), float64(steps))) {
		p, last, read := 1., int32(classes-1), []int32{}
		for t, w := 0, way; t < steps; t, w = t+1, w/classes {
			c := int32(w % classes)
			p *= y[t*classes+int(c)]
			if c != int32(classes-1) && !(merge && c == last) {
				read = append(read, c)
			}
			last = c
		}
		if list(read) == list(labels) {
			sum += p
		}
	}
	return sum
}

// TestWideBeamFindsTheBest compares a beam that drops nothing with the sums over all outputs.
func TestWideBeamFindsTheBest(t *testing.T) {
	const classes, steps = 3, 4
	logits := []float64{0.3, -1, 0.8, 1.2, 0.1, -0.4, -0.7, 0.9, 0.2, 0.5, 0.6, -0.3}
	ctx := kernels.Context{Device: kt.NewDevice(t)}
	m := ctx.Meter()
	defer m.Done()
	s := newBeam[float64](1000, &m, &kernels.Cancellation{})
	for i := range steps {
		if err := s.step(logits[i*classes:][:classes]); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range s.leaves {
		if i > 0 && p.now.total > s.leaves[i-1].now.total {
			t.Errorf("leaf %d is likelier than the one before", i)
		}
		labels := p.spelled(false)
		if want := math.Log(sumOfWays(logits, classes, steps, labels, true)); math.Abs(p.now.total-want) > 1e-5 {
			t.Errorf("labels %v: %v, want %v", labels, p.now.total, want)
		}
	}
}

// TestBeamOfCancelledStep checks that a search step, which takes longer the wider the beam is, ends when the run is cancelled.
func TestBeamOfCancelledStep(t *testing.T) {
	ctx := kernels.Context{Device: kt.NewDevice(t)}
	m := ctx.Meter()
	defer m.Done()
	var ended kernels.Cancellation
	s := newBeam[float64](1000, &m, &ended)
	if err := s.step([]float64{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	ended.Cancel(status.New(status.Cancelled, "enough"))
	if err := s.step([]float64{1, 2, 3}); !errors.Is(err, ended.Err()) {
		t.Errorf("%v", err)
	}
}
