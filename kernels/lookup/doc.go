// Package lookup implements the ops on lookup tables.
//
// The tables themselves are in package containers/table.
package lookup
