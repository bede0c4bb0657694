package dataset

import (
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
)

// TypeNames lists types as TensorFlow's messages do.
func TypeNames(types []tensor.DType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.String()
	}
	return strings.Join(names, ", ")
}

// CountText describes a cardinality in words.
func CountText(n int64) string {
	switch n {
	case Infinite:
		return "an infinite number of elements"
	case Unknown:
		return "an unknown number of elements"
	case 1:
		return "1 element"
	}
	return strconv.FormatInt(n, 10) + " elements"
}
