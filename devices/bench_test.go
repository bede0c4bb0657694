package devices

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// drop discards the results of a run.
type drop struct{}

func (drop) Fetch(_ int, t *tensor.Tensor, _ bool) {
	if t != nil {
		t.Release()
	}
}

func benchmark(b *testing.B, ops int, text string) {
	d := newTestDevice(b)
	p := program(b, d, text, nil)
	ended := make(chan error, 1)
	done := func(err error) { ended <- err }
	b.ReportAllocs()
	for b.Loop() {
		p.Run(newTestStep(drop{}), done)
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(ops), "ns/node")
}

// BenchmarkChain runs 2,000 consecutive additions.
func BenchmarkChain(b *testing.B) {
	var text strings.Builder
	text.WriteString("k = Const() value=1\nx0 = Identity(k)\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "x%d = AddV2(x%d, k)\n", i+1, i)
	}
	text.WriteString("r = _Retval(x2000) index=0\n")
	benchmark(b, 2000, text.String())
}

// BenchmarkWide runs 2,000 independent additions.
func BenchmarkWide(b *testing.B) {
	var text strings.Builder
	text.WriteString("k = Const() value=1\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "x%d = AddV2(k, k)\n", i)
	}
	benchmark(b, 2000, text.String())
}

// BenchmarkLoop runs a loop of 10,000 iterations, each of which fires twelve nodes.
func BenchmarkLoop(b *testing.B) {
	benchmark(b, 10_000*12, strings.ReplaceAll(fmt.Sprintf(countdown, 32, 10_000), " wide=true", ""))
}

// BenchmarkSmall runs programs of steps that compute next to nothing, in reused memory.
func BenchmarkSmall(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"no_op", "n = NoOp()"},
		{"const_add", "a = Const() value=1\nb = AddV2(a, a)\nr = _Retval(b) index=0"},
		{"fed_add", "x = _Arg() index=0\ny = AddV2(x, x)\nr = _Retval(y) index=0"},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := newTestDevice(b)
			p := program(b, d, c.text, nil)
			x := kernelstest.I64(kernelstest.S(3), 1, 2, 3)
			defer x.Release()
			step := newTestStep(drop{}, x)
			var failure error
			ended := 0
			done := func(err error) { failure, ended = err, ended+1 }
			b.ReportAllocs()
			for b.Loop() {
				p.Run(step, done)
			}
			if failure != nil || ended == 0 {
				b.Fatal(failure, ended)
			}
		})
	}
}
