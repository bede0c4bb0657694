package kernels

import (
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
)

// Table is the rows of a family of ops, in the order in which they were added. The zero Table is
// empty. It is made by one goroutine, and not changed after it was registered.
type Table struct {
	rows   []Def
	shared []sharedRows
}

// sharedRows are ops whose CPU rows serve GPUs, too.
type sharedRows struct {
	Sharing
	ops []string
}

// Sharing is what a GPU's row has of its own where it takes the CPU's kernel as it is: for ops whose
// operands lie in host memory, and for those that look at no element.
type Sharing struct {
	// Types restricts attributes, in addition to what the CPU's row does.
	Types map[string][]tensor.DType
	// HostInputs and HostOutputs are those of the row.
	HostInputs, HostOutputs []string
}

// Add adds rows. A row without a Device is the CPU's.
func (t *Table) Add(rows ...Def) { t.rows = append(t.rows, rows...) }

// Op adds the rows of one op, in which its name is left out. With it a table has a line for an op that has rows of
// different kernels for different types.
func (t *Table) Op(op string, sets ...[]Def) {
	for _, rows := range sets {
		for _, row := range rows {
			row.Op = op
			t.Add(row)
		}
	}
}

// Ops are the names of the ops that the table has rows for, sorted.
func (t *Table) Ops() []string {
	var ops []string
	for _, row := range t.rows {
		ops = append(ops, row.Op)
	}
	slices.Sort(ops)
	return slices.Compact(ops)
}

// ForType is an op's row for one type of an attribute, without the op's name.
func ForType(attr string, dtype tensor.DType, construct func(*Construction) (any, error)) []Def {
	return []Def{{Types: dtypes.Only(attr, dtype), New: construct}}
}

// Share gives GPUs the CPU's rows of some ops of the same table.
func (t *Table) Share(s Sharing, ops ...string) {
	t.shared = append(t.shared, sharedRows{s, ops})
}

// OnHost gives GPUs the rows of ops that compute in host memory, for these types of an attribute
// or, without types, for all that the CPU has. Which operands TensorFlow keeps on the host is what
// its own GPU kernels declare: most of all tensors of int32, since they are shapes, sizes and axes.
func (t *Table) OnHost(attr string, types []tensor.DType, ops ...string) {
	s := Sharing{HostInputs: []string{Everything}, HostOutputs: []string{Everything}}
	if types != nil {
		s.Types = map[string][]tensor.DType{attr: types}
	}
	t.Share(s, ops...)
}

// Passing gives GPUs the rows of ops that look at no element of the device's memory: with int32 in
// attr all is on the host, with other types what is named.
func (t *Table) Passing(attr string, hostInputs, hostOutputs []string, ops ...string) {
	t.Share(Sharing{Types: map[string][]tensor.DType{attr: dtypes.BesideInt32}, HostInputs: hostInputs, HostOutputs: hostOutputs}, ops...)
	t.OnHost(attr, dtypes.Int32, ops...)
}

// Moving gives GPUs the rows of ops that say what goes where and leave the moving to package layout,
// which knows where tensors lie: for these types, with inputs that lie on the host.
func (t *Table) Moving(attr string, types []tensor.DType, hostInputs []string, ops ...string) {
	t.Share(Sharing{Types: map[string][]tensor.DType{attr: types}, HostInputs: hostInputs}, ops...)
}

// registry maps op, then device type, to the rows in order of registration.
var registry = map[string]map[string][]*Def{}

// Register adds tables to the registry. It is called before the first server of the process starts,
// by package kernels/all, and by tests that replace rows: never concurrently with anything else of
// this package. It panics where a table shares rows that it does not have.
func Register(tables ...*Table) {
	for _, t := range tables {
		for _, row := range t.rows {
			enter(row)
		}
		for _, s := range t.shared {
			for _, op := range s.ops {
				cpu := registry[op]["CPU"]
				if len(cpu) == 0 {
					panic(fmt.Sprintf("kernels: a GPU's row shares that of %s, which a CPU has none of", op))
				}
				for _, row := range cpu {
					if row, ok := s.row(*row); ok {
						enter(row)
					}
				}
			}
		}
	}
}

func enter(r Def) {
	if r.Device == "" {
		r.Device = "CPU"
	}
	if registry[r.Op] == nil {
		registry[r.Op] = map[string][]*Def{}
	}
	registry[r.Op][r.Device] = append(registry[r.Op][r.Device], &r)
}

// row is the GPU's row that a CPU's row leads to; false where no type is left.
func (s Sharing) row(cpu Def) (Def, bool) {
	types := map[string][]tensor.DType{}
	maps.Copy(types, cpu.Types)
	for attr, only := range s.Types {
		list, ok := types[attr]
		if !ok {
			types[attr] = only
			continue
		}
		both := slices.DeleteFunc(slices.Clone(list), func(t tensor.DType) bool { return !slices.Contains(only, t) })
		if len(both) == 0 {
			return Def{}, false
		}
		types[attr] = both
	}
	cpu.Device, cpu.Types, cpu.HostInputs, cpu.HostOutputs = "GPU", types, s.HostInputs, s.HostOutputs
	return cpu, true
}

// Rows are an op's rows for a type of device, in order of registration; the caller does not change them.
func Rows(op, deviceType string) []*Def { return registry[op][deviceType] }
