package printing

import (
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// DebugText formats a tensor as TensorFlow's Tensor::DebugString does.
func DebugText(t *tensor.Tensor) string {
	return fmt.Sprintf("Tensor<type: %v shape: %v values: %s>", t.DType(), t.Shape(), Summary(t, 3))
}

// VariantText formats a variant's element, with its type, as TensorFlow's Variant::DebugString does.
func VariantText(v any) string {
	return fmt.Sprintf("Variant<type: %s value: %s>", variant.Name(v), variantValue(v))
}

// variantValue formats the content of a variant's element.
func variantValue(v any) string {
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
		return "OptionalVariant<values: (" + debugTexts(v.List) + ")>"
	case *variant.Composite:
		return fmt.Sprintf("<CompositeTensorVariant type=%v, components=[%s]>", v.Class, debugTexts(v.Components))
	case *variant.Ragged:
		splits := tensor.Invalid
		if n := len(v.Splits); n > 0 {
			splits = v.Splits[n-1].DType()
		}
		return fmt.Sprintf("RaggedTensorVariant(dtype=%v, ragged_rank=%d, splits_dtype=%v", v.Values.DType(), len(v.Splits), splits)
	case variant.Boxed:
		return DebugText(v.T)
	case *variant.CSR:
		return DebugText(v.Dense)
	case interface{ Text() string }:
		return v.Text()
	}
	return fmt.Sprintf("%T", v)
}

func debugTexts(list []*tensor.Tensor) string {
	var texts []string
	for _, t := range list {
		texts = append(texts, DebugText(t))
	}
	return strings.Join(texts, ", ")
}
