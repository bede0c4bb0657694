// Package attr has the attributes that the constructors of package op need not be given, one function for
// each:
//
//	y := op.MatMul(s, a, b, attr.TransposeA(true))
//
// An op that does not have the attribute is refused with INVALID_ARGUMENT at that line, and so is one that gets
// it twice.
package attr

// Attr is an attribute of an operation: its name, and its value as a Go value that op.Attr takes. Functions make those
// that have a default; an operation's own, whose names begin with an underscore, are written out.
type Attr struct {
	Name  string
	Value any
}
