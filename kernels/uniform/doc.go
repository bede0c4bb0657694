// Package uniform implements the ops on uniformly quantized numbers. Each number represents (number - zero point) * scale. A scale and a
// zero point apply to a whole tensor or, along one axis, to each of its slices. Products and sums are 32-bit integers that wrap, and are
// scaled in fixed point.
package uniform
