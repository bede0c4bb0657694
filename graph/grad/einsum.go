package grad

import (
	"strings"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
)

const ellipsis = "..."

func init() {
	register(map[string]rule{"Einsum": einsum}, func(r rule) rule { return r })
}

// einsum differentiates a sum of products, which is linear in each factor: the gradient of a factor is the sum of products of dy and the
// other factor.
func einsum(g *call) ([]Gradient, error) {
	left, out, ok := strings.Cut(strings.ReplaceAll(g.text("equation"), " ", ""), "->")
	if !ok {
		return nil, status.InvalidArgumentf("Einsum's equation %q has no ->", g.text("equation"))
	}
	x, dy := g.x(0), g.d(0)
	if len(g.Inputs()) == 1 {
		if reduced(left, out) == "" {
			return dense(g.einsum(out+"->"+left, dy)), nil
		}
		return dense(g.unreduced(dy, out, x, left, reduced(left, out))), nil
	}
	subX, subY, _ := strings.Cut(left, ",")
	if strings.Contains(out, ellipsis) { // then both have one, possibly empty
		if !strings.Contains(subX, ellipsis) {
			subX += ellipsis
		}
		if !strings.Contains(subY, ellipsis) {
			subY += ellipsis
		}
	}
	y := g.x(1)
	dx := g.factor(dy, out, g.conj(y), subY, x, subX)
	dother := g.factor(dy, out, g.conj(x), subX, y, subY)
	if !strings.Contains(out, ellipsis) {
		return dense(dx, dother), nil
	}
	// The dimensions of an ellipsis were broadcast.
	middle := func(v op.Output, sub string) op.Output {
		at := strings.Index(sub, ellipsis)
		shape, after := g.shape(v), int32(len(sub)-at-len(ellipsis))
		return g.from(g.head(g.concat(0, shape, g.ints(0)), after+1), int32(at))
	}
	axes := g.node("BroadcastGradientArgs", nil, middle(x, subX), middle(y, subY))
	sum := func(d, v op.Output, sub string, i int) op.Output {
		at := g.add(axes.Output(i), g.int(int32(strings.Index(sub, ellipsis))))
		return g.reshape(g.total(d, at, true), g.shape(v))
	}
	return dense(sum(dx, x, subX, 0), sum(dother, y, subY, 1)), nil
}

func (g *call) einsum(equation string, x ...op.Output) op.Output {
	return g.make("Einsum", map[string]any{"equation": equation}, op.List(x))
}

// reduced returns the labels of sub that are in none of the others, without duplicates.
func reduced(sub string, others ...string) string {
	var out strings.Builder
	for _, l := range sub {
		if l != '.' && !strings.ContainsRune(strings.Join(others, "")+out.String(), l) {
			out.WriteRune(l)
		}
	}
	return out.String()
}

// factor returns the gradient of the factor x.
func (g *call) factor(dy op.Output, out string, other op.Output, subOther string, x op.Output, subX string) op.Output {
	gone := reduced(subX, out, subOther)
	kept := strings.Map(func(l rune) rune {
		if strings.ContainsRune(gone, l) {
			return -1
		}
		return l
	}, subX)
	d := g.einsum(out+","+subOther+"->"+kept, dy, other)
	if gone == "" {
		return d
	}
	return g.unreduced(d, kept, x, subX, gone)
}

// unreduced repeats d along the labels that x has but d lacks, and arranges all labels in the order of x.
func (g *call) unreduced(d op.Output, have string, x op.Output, sub, gone string) op.Output {
	shape := g.shape(x)
	before, after, _ := strings.Cut(sub, ellipsis)
	var sizes op.List
	for _, l := range gone {
		i := int32(strings.IndexRune(before, l))
		if i < 0 {
			i = int32(strings.IndexRune(after, l) - len(after))
		}
		sizes = append(sizes, g.at(shape, i))
	}
	all := g.concat(0, g.make("Pack", nil, sizes), g.shape(d))
	return g.einsum(gone+have+"->"+sub, g.op("BroadcastTo", d, all))
}
