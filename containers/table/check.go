package table

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

func (t *traits) checkKeys(keys *tensor.Tensor) error {
	if keys.DType() != t.from.DType {
		return status.InvalidArgumentf("Key must be type %v but got %v", t.from.DType, keys.DType())
	}
	if s, suffix := keys.Shape(), t.from.Shape; len(s) < len(suffix) || !s[len(s)-len(suffix):].Equal(suffix) {
		return status.InvalidArgumentf("Input key shape %v must end with the table's key shape %v", s, suffix)
	}
	return nil
}

// checkTypes checks the types of both sides before any shape is checked.
func (t *traits) checkTypes(keys, values *tensor.Tensor) error {
	if keys.DType() != t.from.DType {
		return t.checkKeys(keys)
	}
	if values.DType() != t.to.DType {
		return status.InvalidArgumentf("Value must be type %v but got %v", t.to.DType, values.DType())
	}
	return t.checkKeys(keys)
}

// valueShape returns the shape of the values for keys of a shape.
func (t *traits) valueShape(keys tensor.Shape) tensor.Shape {
	return slices.Concat(keys[:len(keys)-len(t.from.Shape)], t.to.Shape)
}

// checkEntries checks the keys and values of a set of entries.
func (t *traits) checkEntries(keys, values *tensor.Tensor) error {
	if err := t.checkTypes(keys, values); err != nil {
		return err
	}
	if want := t.valueShape(keys.Shape()); !values.Shape().Equal(want) {
		return status.InvalidArgumentf("Expected shape %v for value, got %v", want, values.Shape())
	}
	return nil
}

// checkFind checks the arguments of Find, and returns the shape of its result.
func (t *traits) checkFind(keys, defaults *tensor.Tensor) (tensor.Shape, error) {
	if err := t.checkTypes(keys, defaults); err != nil {
		return nil, err
	}
	full := t.valueShape(keys.Shape())
	if s := defaults.Shape(); !s.Equal(t.to.Shape) && !s.Equal(full) {
		return nil, status.InvalidArgumentf("Expected shape %v or %v for default value, got %v", t.to.Shape, full, s)
	}
	return full, nil
}
