//go:build unix

package e2e

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// worstExponent is the growth above which a measure needs an explanation: 1 is linear, and the rest leaves room for noise and for
// logarithms.
const worstExponent = 1.2

// growth is a table of measures over sizes, such as the number of tasks.
type growth struct {
	title, axis string
	sizes       []int
	rows        []*growthRow
}

// growthRow is a measure at the table's sizes, NaN where it was not taken.
type growthRow struct {
	name, unit string
	values     []float64
}

// add records a measure at a size, and adds the size to the table if it is new.
func (g *growth) add(size int, name, unit string, value float64) {
	at := slices.Index(g.sizes, size)
	if at < 0 {
		at = len(g.sizes)
		g.sizes = append(g.sizes, size)
	}
	i := slices.IndexFunc(g.rows, func(r *growthRow) bool { return r.name == name })
	if i < 0 {
		i = len(g.rows)
		g.rows = append(g.rows, &growthRow{name: name, unit: unit})
	}
	r := g.rows[i]
	for len(r.values) <= at {
		r.values = append(r.values, math.NaN())
	}
	r.values[at] = value
}

// row finds a measure by name.
func (g *growth) row(t testing.TB, name string) *growthRow {
	t.Helper()
	for _, r := range g.rows {
		if r.name == name {
			return r
		}
	}
	t.Fatalf("nothing was measured as %q", name)
	return nil
}

// exponent returns the slope of the measure over the sizes, both as logarithms, by least squares: 0 for constant, 1 for linear, 2 for
// quadratic growth. It is NaN if fewer than two values are above 0.
func exponent(sizes []int, values []float64) float64 {
	var n, x, y, xx, xy float64
	for i, v := range values {
		if !(v > 0) {
			continue
		}
		a, b := math.Log(float64(sizes[i])), math.Log(v)
		n, x, y, xx, xy = n+1, x+a, y+b, xx+a*a, xy+a*b
	}
	if n < 2 {
		return math.NaN()
	}
	return (n*xy - x*y) / (n*xx - x*x)
}

// last returns the exponent between the two largest sizes, where a constant cost hides growth least.
func (r *growthRow) last(sizes []int) float64 {
	n := len(r.values)
	if n < 2 {
		return math.NaN()
	}
	return exponent(sizes[n-2:n], r.values[n-2:])
}

// markdown returns the table with the exponents; those that need an explanation are bold.
func (g *growth) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n| measure | unit |", g.title)
	for _, n := range g.sizes {
		fmt.Fprintf(&b, " %d |", n)
	}
	b.WriteString(" exponent | last |\n| --- | --- |" + strings.Repeat(" ---: |", len(g.sizes)+2) + "\n")
	for _, r := range g.rows {
		fmt.Fprintf(&b, "| %s | %s |", r.name, r.unit)
		for i := range g.sizes {
			if i < len(r.values) && !math.IsNaN(r.values[i]) {
				fmt.Fprintf(&b, " %s |", figure(r.values[i]))
			} else {
				b.WriteString(" |")
			}
		}
		for _, e := range []float64{exponent(g.sizes, r.values), r.last(g.sizes)} {
			switch {
			case math.IsNaN(e):
				b.WriteString(" |")
			case e > worstExponent:
				fmt.Fprintf(&b, " **%.2f** |", e)
			default:
				fmt.Fprintf(&b, " %.2f |", e)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// figure prints a value with about three digits.
func figure(v float64) string {
	switch {
	case v >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func TestExponent(t *testing.T) {
	sizes := []int{4, 16, 64}
	for want, values := range map[float64][]float64{
		0: {7, 7, 7}, 1: {8, 32, 128}, 2: {16, 256, 4096}, -1: {16, 4, 1},
	} {
		if got := exponent(sizes, values); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v grows with the power %v, not %v", values, got, want)
		}
	}
	if e := exponent(sizes, []float64{1, 0, math.NaN()}); !math.IsNaN(e) {
		t.Errorf("one value has the exponent %v", e)
	}
	g := &growth{}
	g.add(4, "m", "", 1)
	g.add(8, "m", "", 1)
	g.add(16, "m", "", 4)
	if e := g.row(t, "m").last(g.sizes); math.Abs(e-2) > 1e-9 {
		t.Errorf("the last exponent is %v", e)
	}
}
