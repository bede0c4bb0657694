package input

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// inputAttrs reads the attributes of an op that parses messages. Only the first error is kept.
type inputAttrs struct {
	c   *kernels.Construction
	err error
}

func (a *inputAttrs) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// need keeps the error where a condition of the op does not hold.
func (a *inputAttrs) need(ok bool, format string, args ...any) {
	if !ok {
		a.fail(status.InvalidArgumentf(format, args...))
	}
}

func (a *inputAttrs) int(name string) int {
	v, err := a.c.Attrs().Int(name)
	a.fail(err)
	return int(v)
}

// types reads a list of types that features can have.
func (a *inputAttrs) types(name string) []tensor.DType {
	list, err := a.c.Attrs().TypeList(name)
	a.fail(err)
	for _, t := range list {
		a.need(slices.Contains([]tensor.DType{tensor.Float32, tensor.Int64, tensor.String}, t), "Received input dtype: %v", t)
	}
	return list
}

// splits reads a list of types of row splits; title is what an error calls it.
func (a *inputAttrs) splits(name, title string) []tensor.DType {
	list, err := a.c.Attrs().TypeList(name)
	a.fail(err)
	for _, t := range list {
		a.need(t == tensor.Int32 || t == tensor.Int64, "Invalid %s: %v", title, t)
	}
	return list
}

func (a *inputAttrs) strings(name string) []string {
	list, err := a.c.Attrs().List(name)
	a.fail(err)
	var all []string
	for _, s := range list.GetS() {
		all = append(all, string(s))
	}
	return all
}

// shapes reads a list of shapes. Where open is true, the first size of one may be unknown (-1).
func (a *inputAttrs) shapes(name string, open bool) []tensor.Shape {
	list, err := a.c.Attrs().List(name)
	a.fail(err)
	var all []tensor.Shape
	for i, p := range list.GetShape() {
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
