// Package mapping implements the datasets that call functions of the graph for elements: map, filter, scan, the flat maps, interleave and
// group. Those that work ahead have a goroutine for each call. Prefetch is here because they share how many calls or elements that may be.
package mapping
