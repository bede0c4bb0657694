package main

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/graph/tensor"
)

// rates are the floating-point operations of a multiprocessor per clock, by compute capability. A multiplication with an addition counts as
// two. The source is NVIDIA's papers on the architectures, for dense matrices.
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

// unitOf returns the unit that multiplies elements of a type.
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

// peak returns the floating-point operations per second of the card at its highest clock, or 0 if that is not known.
func (m *machine) peak(u unit) float64 {
	rate, ok := rates[m.info.Compute][u]
	if !ok && u == tf32 {
		rate = rates[m.info.Compute][vector]
	}
	return rate * float64(m.info.Processors) * float64(m.info.Clock) * 1e3
}

// bandwidth returns the bytes per second of the card's memory at its highest clock, with two transfers per clock.
func (m *machine) bandwidth() float64 {
	return float64(m.info.MemoryClock) * 1e3 * 2 * float64(m.info.MemoryBus) / 8
}

// rate returns an amount per second.
func rate(amount float64, took time.Duration) float64 { return amount / took.Seconds() }

// of returns a rate as a percentage of a limit.
func of(rate, limit float64) string {
	if limit == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.1f %%", 100*rate/limit)
}

// tera and giga print rates.
func tera(rate float64) string { return digits(rate / 1e12) }
func giga(rate float64) string { return digits(rate / 1e9) }

// digits prints a figure with three digits.
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
