// Package shapes computes with shapes: axes, strides, broadcasting, sizes that may overflow, and partially known shapes.
package shapes
