package strings

import (
	"fmt"
	"math"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/printing"
)

// newAsString returns the kernel that formats elements as C's printf does, with the flag, width, precision and verb given by the
// attributes.
func newAsString(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	dtype, precision, width := a.Type("T"), a.Int("precision"), a.Int("width")
	fillWith, scientific, shortest := a.Str("fill"), a.Bool("scientific"), a.Bool("shortest")
	if err := a.Err(); err != nil {
		return nil, err
	}
	float := dtype.IsFloating() || dtype.IsComplex()
	switch {
	case !float && dtype != tensor.String && (scientific || shortest):
		return nil, status.InvalidArgumentf("scientific and shortest format not supported for datatype %v", dtype)
	case !float && dtype != tensor.String && precision >= 0:
		return nil, status.InvalidArgumentf("precision not supported for datatype %v", dtype)
	case len(fillWith) > 1:
		return nil, status.InvalidArgumentf("Fill string must be one or fewer characters")
	case scientific && shortest:
		return nil, status.InvalidArgumentf("Cannot select both scientific and shortest notation")
	case fillWith != "" && !strings.Contains(" +-0#", fillWith):
		return nil, status.InvalidArgumentf("Fill argument not supported: %q", fillWith)
	case width > maxWidth || precision > maxWidth:
		return nil, status.InvalidArgumentf("AsString with width=%d and precision=%d is not supported: the limit is %d", width, precision, maxWidth)
	}
	if isUnsigned(dtype) && (fillWith == "+" || fillWith == " ") {
		fillWith = "" // C has signs for signed numbers only
	}
	format := "%" + fillWith
	if width > -1 {
		format += fmt.Sprint(width)
	}
	if precision > -1 {
		format += fmt.Sprintf(".%d", precision)
	}
	switch {
	case float && shortest:
		format += "g"
		if precision < 0 {
			// Go's %g without a precision prints as many digits as necessary, C's six.
			format = strings.TrimSuffix(format, "g") + ".6g"
		}
	case float && scientific:
		format += "e"
	case float:
		format += "f"
	default:
		format += "d"
	}
	if dtype == tensor.String && width <= 0 {
		return kernels.Func(kernels.PassInput), nil
	}
	show, ok := stringers[dtype]
	if dtype == tensor.String {
		show, ok = func(dst []string, t *tensor.Tensor, _ string) {
			padStrings(dst, t.Strings(), int(width), int(precision), fillWith == "-")
		}, true
	}
	if !ok && dtype != tensor.Variant {
		return nil, status.InvalidArgumentf("Type not supported: %v", dtype)
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := args.CheckType(ctx, 0, dtype); err != nil {
			return err
		}
		in := ctx.Input(0)
		out, err := ctx.Allocate(0, tensor.String, in.Shape())
		if err != nil {
			return err
		}
		m := ctx.Meter()
		defer m.Done()
		if dtype == tensor.Variant {
			return variantTexts(&m, out.Strings(), in.Variants())
		}
		if err := m.TakeMany(in.Len(), 2*int(max(width, precision, 12))); err != nil {
			return err
		}
		show(out.Strings(), in, format)
		return nil
	}), nil
}

// variantTexts formats variants, whose texts are of any length.
func variantTexts(m *kernels.Meter, dst []string, list []any) error {
	for i, v := range list {
		dst[i] = printing.VariantText(v)
		if err := m.Take(len(dst[i])); err != nil {
			return err
		}
	}
	return nil
}

// maxWidth bounds the printed width of one element.
const maxWidth = 4096

var stringers = map[tensor.DType]func(dst []string, t *tensor.Tensor, format string){
	tensor.Int8: sprintEach[int8], tensor.Int16: sprintEach[int16], tensor.Int32: sprintEach[int32], tensor.Int64: sprintEach[int64],
	tensor.Uint8: sprintEach[uint8], tensor.Uint16: sprintEach[uint16], tensor.Uint32: sprintEach[uint32], tensor.Uint64: sprintEach[uint64],
	tensor.Float32: func(dst []string, t *tensor.Tensor, format string) {
		for i, v := range tensor.Of[float32](t) {
			dst[i] = sprintFloat(format, float64(v))
		}
	},
	tensor.Float64: func(dst []string, t *tensor.Tensor, format string) {
		for i, v := range tensor.Of[float64](t) {
			dst[i] = sprintFloat(format, v)
		}
	},
	tensor.Float16: func(dst []string, t *tensor.Tensor, format string) {
		for i, v := range tensor.Of[element.Float16](t) {
			dst[i] = sprintFloat(format, float64(v.Float()))
		}
	},
	tensor.BFloat16: func(dst []string, t *tensor.Tensor, format string) {
		for i, v := range tensor.Of[element.BFloat16](t) {
			dst[i] = sprintFloat(format, float64(v.Float()))
		}
	},
	tensor.Complex64: func(dst []string, t *tensor.Tensor, format string) {
		for i, v := range tensor.Of[complex64](t) {
			dst[i] = "(" + sprintFloat(format, float64(real(v))) + "," + sprintFloat(format, float64(imag(v))) + ")"
		}
	},
	tensor.Complex128: func(dst []string, t *tensor.Tensor, format string) {
		for i, v := range tensor.Of[complex128](t) {
			dst[i] = "(" + sprintFloat(format, real(v)) + "," + sprintFloat(format, imag(v)) + ")"
		}
	},
	tensor.Bool: func(dst []string, t *tensor.Tensor, _ string) {
		for i, v := range tensor.Of[bool](t) {
			dst[i] = fmt.Sprint(v)
		}
	},
}

// isUnsigned reports whether elements of a type are integers without a sign.
func isUnsigned(dtype tensor.DType) bool {
	return dtype == tensor.Uint8 || dtype == tensor.Uint16 || dtype == tensor.Uint32 || dtype == tensor.Uint64
}

// padStrings pads strings to a width with spaces, at their end if left is set. A precision of 0 or more limits their length. Unlike Go's verbs,
// it counts bytes.
func padStrings(dst, src []string, width, precision int, left bool) {
	for i, s := range src {
		if precision >= 0 {
			s = s[:min(precision, len(s))]
		}
		pad := strings.Repeat(" ", max(0, width-len(s)))
		if left {
			dst[i] = s + pad
		} else {
			dst[i] = pad + s
		}
	}
}

func sprintEach[T element.Integer](dst []string, t *tensor.Tensor, format string) {
	for i, v := range tensor.Of[T](t) {
		dst[i] = fmt.Sprintf(format, v)
	}
}

// sprintFloat prints infinities and NaNs as C does: by name, padded with spaces.
func sprintFloat(format string, v float64) string {
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		return fmt.Sprintf(format, v)
	}
	name := "nan"
	if math.IsInf(v, 0) {
		name = "inf"
	}
	flag, left := "", ""
	if strings.ContainsAny(format[1:2], " +-0#") {
		flag = format[1:2]
	}
	switch {
	case math.IsInf(v, -1):
		name = "-" + name
	case flag == "+" || flag == " ":
		name = flag + name
	}
	if flag == "-" {
		left = "-"
	}
	width, _, _ := strings.Cut(strings.TrimRight(format[1+len(flag):], "efg"), ".")
	return fmt.Sprintf("%"+left+width+"s", name)
}
