package control

import (
	"math"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// anomalies are the kinds of values that CheckNumerics rejects.
type anomalies struct{ nan, plusInf, minusInf bool }

func scanFloats[T float32 | float64](values []T) (a anomalies) {
	for _, v := range values {
		// v-v is zero for all values except NaN and infinities.
		if v-v == 0 {
			continue
		}
		a.nan = a.nan || v != v
		a.plusInf = a.plusInf || math.IsInf(float64(v), 1)
		a.minusInf = a.minusInf || math.IsInf(float64(v), -1)
	}
	return a
}

// scanHalves checks 16-bit floats; exp masks their exponent.
func scanHalves(values []uint16, exp uint16) (a anomalies) {
	for _, v := range values {
		switch magnitude := v & 0x7fff; {
		case magnitude < exp:
		case magnitude > exp:
			a.nan = true
		case v == magnitude:
			a.plusInf = true
		default:
			a.minusInf = true
		}
	}
	return a
}

// scans check all elements of a type; half types are checked by their exponent bits.
var scans = map[tensor.DType]func(*tensor.Tensor) anomalies{
	tensor.Float32:  func(t *tensor.Tensor) anomalies { return scanFloats(tensor.Of[float32](t)) },
	tensor.Float64:  func(t *tensor.Tensor) anomalies { return scanFloats(tensor.Of[float64](t)) },
	tensor.Float16:  func(t *tensor.Tensor) anomalies { return scanHalves(tensor.Of[uint16](t), 0x7c00) },
	tensor.BFloat16: func(t *tensor.Tensor) anomalies { return scanHalves(tensor.Of[uint16](t), 0x7f80) },
}

func (a anomalies) String() string {
	inf := a.plusInf || a.minusInf
	switch {
	case a.nan && inf:
		return "Inf and NaN"
	case a.nan:
		return "NaN"
	case inf:
		return "Inf"
	}
	return ""
}

// signed describes the anomalies, with the signs of infinities.
func (a anomalies) signed() string {
	var found []string
	if a.minusInf {
		found = append(found, "-Inf")
	}
	if a.plusInf {
		found = append(found, "+Inf")
	}
	if a.nan {
		found = append(found, "NaN")
	}
	switch n := len(found); n {
	case 0, 1:
		return strings.Join(found, "")
	case 2:
		return strings.Join(found, " and ")
	default:
		return strings.Join(found[:n-1], ", ") + ", and " + found[n-1]
	}
}

func newCheckNumerics(c *kernels.Construction) (any, error) {
	return checkNumerics(c, anomalies.String)
}

func newCheckNumericsV2(c *kernels.Construction) (any, error) {
	return checkNumerics(c, anomalies.signed)
}

func checkNumerics(c *kernels.Construction, describe func(anomalies) string) (any, error) {
	message, err := c.Attrs().Str("message")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		t := ctx.Input(0)
		scan, ok := scans[t.DType()]
		if !ok {
			return status.InvalidArgumentf("%s : Tensor of type %v cannot hold non-finite values", message, t.DType())
		}
		if found := describe(scan(t)); found != "" {
			return status.InvalidArgumentf("%s : Tensor had %s values", message, found)
		}
		ctx.Pass(0, 0)
		return nil
	}), nil
}
