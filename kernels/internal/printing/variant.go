package printing

import (
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// maxText bounds the text of what variants hold, in bytes: a value that they hold several times is printed as often, and nested variants can hold
// it more often than any memory has room for.
const maxText = 64 << 10

// room is what is left of the text of variants that is printed. Beyond it, each value is printed as beyond.
type room int

const beyond = "..."

func newRoom() *room {
	r := room(maxText)
	return &r
}

// take takes a text from the room.
func (r *room) take(text string) { *r -= room(len(text)) }

// DebugText formats a tensor as TensorFlow's Tensor::DebugString does.
func DebugText(t *tensor.Tensor) string { return debugText(t, newRoom()) }

func debugText(t *tensor.Tensor, r *room) string {
	if *r <= 0 {
		return beyond
	}
	r.take("Tensor<type: shape: values: >")
	text := summary(t, 3, r)
	if t.DType() != tensor.Variant {
		r.take(text)
	}
	return fmt.Sprintf("Tensor<type: %v shape: %v values: %s>", t.DType(), t.Shape(), text)
}

// VariantText formats a variant's element, with its type, as TensorFlow's Variant::DebugString does.
func VariantText(v any) string {
	return fmt.Sprintf("Variant<type: %s value: %s>", variant.Name(v), variantValue(v, newRoom()))
}

// variantValue formats the content of a variant's element.
func variantValue(v any, r *room) string {
	switch v := v.(type) {
	case nil:
		return "[empty]"
	case *variant.TensorList:
		return "TensorList"
	case *variant.TensorMap:
		return "TensorMap"
	case *variant.Optional:
		if !v.Has {
			return "OptionalVariant<None>"
		}
		return "OptionalVariant<values: (" + debugTexts(v.List, r) + ")>"
	case *variant.Composite:
		return fmt.Sprintf("<CompositeTensorVariant type=%v, components=[%s]>", v.Class, debugTexts(v.Components, r))
	case *variant.Ragged:
		splits := tensor.Invalid
		if n := len(v.Splits); n > 0 {
			splits = v.Splits[n-1].DType()
		}
		return fmt.Sprintf("RaggedTensorVariant(dtype=%v, ragged_rank=%d, splits_dtype=%v", v.Values.DType(), len(v.Splits), splits)
	case variant.Boxed:
		return debugText(v.T, r)
	case *variant.CSR:
		return debugText(v.Dense, r)
	case interface{ Text() string }:
		return v.Text()
	}
	return fmt.Sprintf("%T", v)
}

func debugTexts(list []*tensor.Tensor, r *room) string {
	var texts []string
	for _, t := range list {
		if *r <= 0 {
			texts = append(texts, beyond)
			break
		}
		texts = append(texts, debugText(t, r))
	}
	return strings.Join(texts, ", ")
}
