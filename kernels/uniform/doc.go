// Package uniform holds the ops on uniformly quantized numbers. Each number stands for (number - zero point) * scale, where
// scale and zero point belong to a whole tensor or, along one axis, to each of its slices. Their products and sums are
// integers of 32 bits that wrap, and are scaled in fixed point.
package uniform
