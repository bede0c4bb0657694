package op

import (
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/status"
)

//go:generate go run ../../cmd/internal/opgen

// need holds the attributes without a default, for which constructors have parameters.
type need map[string]any

// add is Add for the generated constructors.
func (s *Scope) add(op string, required need, attrs []attr.Attr, inputs ...Input) *Operation {
	for _, a := range attrs {
		if required == nil {
			required = make(need, len(attrs))
		}
		if _, ok := required[a.Name]; ok {
			s.fail(status.InvalidArgumentf("%s has the attribute '%s' twice", op, a.Name))
			return nil
		}
		required[a.Name] = a.Value
	}
	return s.Add(Spec{Op: op, Inputs: inputs, Attrs: required})
}

// argument returns the tensor of the op's i-th output argument, which stands for only one.
func (o *Operation) argument(i int) Output {
	if o == nil {
		return Output{}
	}
	return Output{o, o.args[i][0]}
}
