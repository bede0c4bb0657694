package table

import (
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
)

// element describes how elements of a type are read from tensors and kept.
type element[T any] struct {
	dtype tensor.DType
	of    func(*tensor.Tensor) []T
	// size is the size of an element in a slice; extra, if not nil, returns the memory that it takes elsewhere.
	size  int64
	extra func(T) int64
	// own, if not nil, returns an element that may outlive the tensor that it comes from; drop releases such an element.
	own  func(T) T
	drop func(T)
}

// A string may be part of a large message, which a table must not keep alive.
var stringElement = element[string]{dtype: tensor.String, of: (*tensor.Tensor).Strings, size: 16,
	extra: func(s string) int64 { return int64(len(s)) }, own: strings.Clone}

var variantElement = element[any]{dtype: tensor.Variant, of: (*tensor.Tensor).Variants, size: 16,
	own: func(v any) any {
		tensor.RetainVariants([]any{v})
		return v
	},
	drop: func(v any) {
		if c, ok := v.(tensor.Counted); ok {
			c.Release()
		}
	},
}

// copy copies elements to those of a tensor, which owns them from then on.
func (e element[T]) copy(dst, src []T) {
	if e.drop == nil {
		copy(dst, src)
		return
	}
	for i, v := range src {
		e.set(dst, i, v)
	}
}

// set replaces an element of a slice that owns its elements.
func (e element[T]) set(dst []T, i int, v T) {
	if e.own != nil {
		v = e.own(v)
	}
	if e.drop != nil {
		e.drop(dst[i])
	}
	dst[i] = v
}

// keep copies elements to a slice that owns its elements and has none to drop.
func (e element[T]) keep(dst, src []T) {
	for i, v := range src {
		if e.own != nil {
			v = e.own(v)
		}
		dst[i] = v
	}
}

// extras returns the total memory that elements take elsewhere.
func (e element[T]) extras(list []T) (n int64) {
	if e.extra != nil {
		for _, v := range list {
			n += e.extra(v)
		}
	}
	return n
}
