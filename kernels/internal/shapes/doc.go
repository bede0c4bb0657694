// Package shapes computes with shapes: axes, strides, broadcasting, sizes that may overflow, and shapes that are
// known in part.
package shapes
