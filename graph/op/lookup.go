package op

import (
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Table maps keys to values. The operations that its methods add run on the table's device, whatever device
// their scope asks for.
type Table struct {
	handle      Output
	key, value  tensor.DType
	initializer *Operation
}

// NewTable is a table that its Initializer fills once with keys and values, two vectors of the same length.
func NewTable(s *Scope, keys, values Output, attrs ...attr.Attr) *Table {
	t := &Table{handle: HashTableV2(s, keys.DType(), values.DType(), attrs...), key: keys.DType(), value: values.DType()}
	t.initializer = InitializeTableV2(s.within(t.handle.Op).beside(t.handle.Op), t.handle, keys, values)
	s.graph.initialize(t.initializer)
	return t
}

// Column selects the part of a line of a text file that is a table's key or value: WholeLine, LineNumber, or
// the number of a column, from 0.
type Column int64

// What of a line is a key or value, where it is no column.
const (
	WholeLine  Column = -2
	LineNumber Column = -1
)

// NewFileTable is a table that its Initializer fills from a text file, whose name is a string scalar, with an
// entry for each line. attr.Delimiter separates the columns (a tab).
func NewFileTable(s *Scope, file Output, key tensor.DType, keyAt Column, value tensor.DType, valueAt Column, attrs ...attr.Attr) *Table {
	t := &Table{handle: HashTableV2(s, key, value), key: key, value: value}
	t.initializer = InitializeTableFromTextFileV2(s.within(t.handle.Op).beside(t.handle.Op), t.handle, file, int64(keyAt), int64(valueAt), attrs...)
	s.graph.initialize(t.initializer)
	return t
}

// NewMutableTable is an empty table that Insert and Remove change.
func NewMutableTable(s *Scope, key, value tensor.DType, attrs ...attr.Attr) *Table {
	return &Table{handle: MutableHashTableV2(s, key, value, attrs...), key: key, value: value}
}

// Handle is the resource, which ops on tables take.
func (t *Table) Handle() Output { return t.handle }

// Initializer is the operation that fills the table; nil for one that starts empty.
func (t *Table) Initializer() *Operation { return t.initializer }

// Find returns the values of keys, and otherwise for keys that are not in the table.
func (t *Table) Find(s *Scope, keys, otherwise Output) Output {
	return LookupTableFindV2(s.beside(t.handle.Op), t.handle, keys, otherwise)
}

// Insert sets the values of keys.
func (t *Table) Insert(s *Scope, keys, values Output) *Operation {
	return LookupTableInsertV2(s.beside(t.handle.Op), t.handle, keys, values)
}

// Remove removes keys. Keys that are not in the table are ignored.
func (t *Table) Remove(s *Scope, keys Output) *Operation {
	return LookupTableRemoveV2(s.beside(t.handle.Op), t.handle, keys)
}

// Size is the number of entries, an int64 scalar.
func (t *Table) Size(s *Scope) Output { return LookupTableSizeV2(s.beside(t.handle.Op), t.handle) }

// Export returns all entries, in no particular order.
func (t *Table) Export(s *Scope) (keys, values Output) {
	return LookupTableExportV2(s.beside(t.handle.Op), t.handle, t.key, t.value)
}
