package kernels

import (
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
)

// debugText prints a tensor as TensorFlow's Tensor::DebugString does.
func debugText(t *tensor.Tensor) string {
	return fmt.Sprintf("Tensor<type: %v shape: %v values: %s>", t.DType(), t.Shape(), summary(t, 3))
}

// variantText prints a variant's element as TensorFlow's Variant::DebugString does: with its type.
func variantText(v any) string {
	name := ""
	switch v := v.(type) {
	case nil:
	case *tensorList:
		name = "tensorflow::TensorList"
	case *tensorMap:
		name = "tensorflow::TensorMap"
	case *optional:
		name = "tensorflow::data::Optional"
	case *composite:
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
	case *tensorList:
		return "TensorList"
	case *tensorMap:
		return "TensorMap"
	case *optional:
		if !v.has {
			return "OptionalVariant<None>"
		}
		return "OptionalVariant<values: (" + debugTexts(v.list) + ")>"
	case *composite:
		return fmt.Sprintf("<CompositeTensorVariant type=%v, components=[%s]>", v.class, debugTexts(v.components))
	}
	return fmt.Sprintf("%T", v)
}

func debugTexts(list []*tensor.Tensor) string {
	var texts []string
	for _, t := range list {
		texts = append(texts, debugText(t))
	}
	return strings.Join(texts, ", ")
}
