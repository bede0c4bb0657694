package op

import (
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Table maps keys to values. The operations added by its methods run on the table's device, whatever device their scope requests.
type Table struct {
	handle      Output
	key, value  tensor.DType
	initializer *Operation
}

// NewTable returns a table that its Initializer fills once with keys and values, two vectors of the same length.
func NewTable(s *Scope, keys, values Output, attrs ...attr.Attr) *Table {
	t := &Table{handle: HashTableV2(s, keys.DType(), values.DType(), attrs...), key: keys.DType(), value: values.DType()}
	t.initializer = InitializeTableV2(s.within(t.handle.Op).beside(t.handle.Op), t.handle, keys, values)
	s.graph.initialize(t.initializer)
	return t
}

// Column selects the part of a text file's line that is a table's key or value: WholeLine, LineNumber, or the number of a column, from 0.
type Column int64

// Parts of a line that are not a column.
const (
	WholeLine  Column = -2
	LineNumber Column = -1
)

// NewFileTable returns a table that its Initializer fills from a text file, one entry per line. The file's name is a string scalar.
// attr.Delimiter separates the columns (default: a tab).
func NewFileTable(s *Scope, file Output, key tensor.DType, keyAt Column, value tensor.DType, valueAt Column, attrs ...attr.Attr) *Table {
	t := &Table{handle: HashTableV2(s, key, value), key: key, value: value}
	t.initializer = InitializeTableFromTextFileV2(s.within(t.handle.Op).beside(t.handle.Op), t.handle, file, int64(keyAt), int64(valueAt), attrs...)
	s.graph.initialize(t.initializer)
	return t
}

// NewMutableTable returns an empty table that Insert and Remove change.
func NewMutableTable(s *Scope, key, value tensor.DType, attrs ...attr.Attr) *Table {
	return &Table{handle: MutableHashTableV2(s, key, value, attrs...), key: key, value: value}
}

// Handle returns the table's resource handle, for ops on tables.
func (t *Table) Handle() Output { return t.handle }

// Initializer returns the operation that fills the table, or nil for a table that starts empty.
func (t *Table) Initializer() *Operation { return t.initializer }

// Find returns the values of keys; keys that are not in the table yield otherwise.
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

// Size returns the number of entries, an int64 scalar.
func (t *Table) Size(s *Scope) Output { return LookupTableSizeV2(s.beside(t.handle.Op), t.handle) }

// Export returns all entries, in no particular order.
func (t *Table) Export(s *Scope) (keys, values Output) {
	return LookupTableExportV2(s.beside(t.handle.Op), t.handle, t.key, t.value)
}
