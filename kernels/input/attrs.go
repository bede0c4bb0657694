package input

import (
	"slices"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// inputAttrs reads the attributes of an op that parses messages.
type inputAttrs struct{ graph.AttrReader }

func inputAttrsOf(c *kernels.Construction) inputAttrs { return inputAttrs{c.Attrs().Reader()} }

// need records an error if a condition of the op does not hold.
func (a *inputAttrs) need(ok bool, format string, args ...any) {
	if !ok {
		a.Failf(format, args...)
	}
}

func (a *inputAttrs) int(name string) int { return int(a.Int(name)) }

// types reads a list of types that features can have.
func (a *inputAttrs) types(name string) []tensor.DType {
	list := a.TypeList(name)
	for _, t := range list {
		a.need(slices.Contains([]tensor.DType{tensor.Float32, tensor.Int64, tensor.String}, t), "Received input dtype: %v", t)
	}
	return list
}

// splits reads a list of types of row splits; title is its name in errors.
func (a *inputAttrs) splits(name, title string) []tensor.DType {
	list := a.TypeList(name)
	for _, t := range list {
		a.need(t == tensor.Int32 || t == tensor.Int64, "Invalid %s: %v", title, t)
	}
	return list
}

// shapes reads a list of shapes. If open is true, the first dimension of each may be unknown (-1).
func (a *inputAttrs) shapes(name string, open bool) []tensor.Shape {
	var all []tensor.Shape
	for i, p := range a.List(name).GetShape() {
		s, known := tensor.ShapeFromProto(p)
		inner := s
		if open && known && len(s) > 0 {
			inner = s[1:]
		}
		known = known && !slices.ContainsFunc(inner, func(n int64) bool { return n < 0 })
		switch {
		case open && p.GetUnknownRank():
			a.need(false, "%s[%d] has unknown rank or unknown inner dimensions: <unknown>", name, i)
		case open:
			a.need(known, "%s[%d] has unknown rank or unknown inner dimensions: %v", name, i, s)
		default:
			a.need(known, "%s[%d] is not fully defined: %v", name, i, s)
		}
		all = append(all, s)
	}
	return all
}
