// Package attr has the optional attributes of the constructors of package op, one function for each:
//
//	y := op.MatMul(s, a, b, attr.TransposeA(true))
//
// An attribute that the op does not have, or that is given twice, is INVALID_ARGUMENT at that line.
package attr

// Attr is an attribute of an operation: its name, and its value as a Go value that op.Attr takes. Functions make those
// that have a default; an operation's own, whose names begin with an underscore, are written out.
type Attr struct {
	Name  string
	Value any
}
