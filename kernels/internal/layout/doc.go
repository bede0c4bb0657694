// Package layout moves elements in memory without knowing their type, on the host and on accelerators: loop nests, rows, fills and joins.
package layout
