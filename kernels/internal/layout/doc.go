// Package layout moves elements in memory without knowing their type: loop nests, rows, fills, joins, on the
// host and on accelerators.
package layout
