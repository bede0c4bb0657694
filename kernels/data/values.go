package data

import (
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
)

func int64Scalar(v int64) *tensor.Tensor { return tensor.Scalar(tensor.Int64, v) }

func truthScalar(v bool) *tensor.Tensor { return tensor.Scalar(tensor.Bool, v) }

func stringScalar(s string) *tensor.Tensor { return tensor.FromScalar(s) }

func equalTypes(a, b []tensor.DType) bool { return slices.Equal(a, b) }

// typeNames lists types as TensorFlow's messages do.
func typeNames(types []tensor.DType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.String()
	}
	return strings.Join(names, ", ")
}

// elements describes a cardinality in words.
func elements(n int64) string {
	switch n {
	case infinite:
		return "an infinite number of elements"
	case unknown:
		return "an unknown number of elements"
	case 1:
		return "1 element"
	}
	return strconv.FormatInt(n, 10) + " elements"
}
