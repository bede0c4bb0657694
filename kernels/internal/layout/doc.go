// Package layout moves elements in memory without knowing their type: nests of loops, rows, fills, joins, on the
// host and on accelerators.
package layout
