package printing

import (
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// DebugText prints a tensor as TensorFlow's Tensor::DebugString does.
func DebugText(t *tensor.Tensor) string {
	return fmt.Sprintf("Tensor<type: %v shape: %v values: %s>", t.DType(), t.Shape(), Summary(t, 3))
}

// VariantText prints a variant's element as TensorFlow's Variant::DebugString does: with its type.
func VariantText(v any) string {
	name := ""
	switch v := v.(type) {
	case nil:
	case *variant.TensorList:
		name = "tensorflow::TensorList"
	case *variant.TensorMap:
		name = "tensorflow::TensorMap"
	case *variant.Optional:
		name = "tensorflow::data::Optional"
	case *variant.Composite:
		name = "CompositeTensorVariant"
	default:
		name = fmt.Sprintf("%T", v)
	}
	return fmt.Sprintf("Variant<type: %s value: %s>", name, variantValue(v))
}

// variantValue prints what a variant's element holds.
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
