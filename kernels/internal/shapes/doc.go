// Package shapes computes with shapes: axes, strides, broadcasting, sizes that may overflow, and partly known
// shapes.
package shapes
