package main

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/graph/tensor"
)

// rates are the floating-point operations that a multiprocessor does in a clock, two for a multiplication with an addition, by
// compute capability: those that NVIDIA's papers on the architectures state, for dense matrices.
var rates = map[int]map[unit]float64{
	70:  {vector: 128, double: 64, half: 1024},
	75:  {vector: 128, double: 4, half: 1024},
	80:  {vector: 128, double: 128, half: 2048, tf32: 1024},
	86:  {vector: 256, double: 4, half: 1024, tf32: 512},
	87:  {vector: 256, double: 4, half: 1024, tf32: 512},
	89:  {vector: 256, double: 4, half: 1024, tf32: 512},
	90:  {vector: 256, double: 256, half: 4096, tf32: 2048},
	100: {vector: 256, double: 128, half: 8192, tf32: 4096},
	120: {vector: 256, double: 4, half: 1024, tf32: 512},
}

// unit is the part of a multiprocessor that multiplies.
type unit int

const (
	vector unit = iota // float32
	double             // float64
	half               // float16 and bfloat16, on tensor cores
	tf32               // float32 that may be rounded, on tensor cores
)

// unitOf is what multiplies elements of a type.
func unitOf(dtype tensor.DType, round bool) unit {
	switch dtype {
	case tensor.Float64:
		return double
	case tensor.Float16, tensor.BFloat16:
		return half
	}
	if round {
		return tf32
	}
	return vector
}

// peak is the floating-point operations that the card does in a second at its highest clock; 0 where that is not known.
func (m *machine) peak(u unit) float64 {
	rate, ok := rates[m.info.Compute][u]
	if !ok && u == tf32 {
		rate = rates[m.info.Compute][vector]
	}
	return rate * float64(m.info.Processors) * float64(m.info.Clock) * 1e3
}

// bandwidth is the bytes that the card's memory moves in a second at its highest clock, two transfers in each.
func (m *machine) bandwidth() float64 {
	return float64(m.info.MemoryClock) * 1e3 * 2 * float64(m.info.MemoryBus) / 8
}

// rate is what was done, in a second.
func rate(amount float64, took time.Duration) float64 { return amount / took.Seconds() }

// of is a rate as a percentage of a limit.
func of(rate, limit float64) string {
	if limit == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.1f %%", 100*rate/limit)
}

// tera and giga print rates.
func tera(rate float64) string { return digits(rate / 1e12) }
func giga(rate float64) string { return digits(rate / 1e9) }

// digits prints a figure with three of them.
func digits(v float64) string { return fmt.Sprintf("%.3g", v) }

// span prints a time in seconds.
func span(seconds float64) string {
	for _, u := range []struct {
		name string
		of   float64
	}{{"s", 1}, {"ms", 1e3}} {
		if seconds*u.of >= 1 {
			return digits(seconds*u.of) + " " + u.name
		}
	}
	return digits(seconds*1e6) + " µs"
}
