package kernels

import (
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
)

// Table holds the rows of a family of ops, in the order in which they were added. The zero Table is empty. It is filled by one goroutine
// and must not change after it is registered.
type Table struct {
	rows   []Def
	shared []sharedRows
}

// sharedRows are ops whose CPU rows also serve GPUs.
type sharedRows struct {
	Sharing
	ops []string
}

// Sharing is what differs in a GPU's row that reuses the CPU's kernel. This suits ops whose operands are in host memory and ops that read
// no elements.
type Sharing struct {
	// Types restricts attributes, in addition to the restrictions of the CPU's row.
	Types map[string][]tensor.DType
	// HostInputs and HostOutputs are those of the GPU's row.
	HostInputs, HostOutputs []string
}

// Add adds rows. A row without a Device is for the CPU.
func (t *Table) Add(rows ...Def) { t.rows = append(t.rows, rows...) }

// Op adds the rows of one op, which omit its name. It keeps an op on one line of the table when its rows have different kernels for
// different types.
func (t *Table) Op(op string, sets ...[]Def) {
	for _, rows := range sets {
		for _, row := range rows {
			row.Op = op
			t.Add(row)
		}
	}
}

// Ops returns the sorted names of the ops that the table has rows for.
func (t *Table) Ops() []string {
	var ops []string
	for _, row := range t.rows {
		ops = append(ops, row.Op)
	}
	slices.Sort(ops)
	return slices.Compact(ops)
}

// ForType returns an op's row for one type of an attribute, without the op's name.
func ForType(attr string, dtype tensor.DType, construct func(*Construction) (any, error)) []Def {
	return []Def{{Types: dtypes.Only(attr, dtype), New: construct}}
}

// FromAttrs returns the constructor of a kernel that depends on the node's attributes only.
func FromAttrs(make func(*graph.AttrReader) Kernel) func(*Construction) (any, error) {
	return func(c *Construction) (any, error) {
		a := c.Attrs().Reader()
		return make(&a), a.Err()
	}
}

// Share adds GPU rows that reuse the CPU rows of ops of the same table.
func (t *Table) Share(s Sharing, ops ...string) {
	t.shared = append(t.shared, sharedRows{s, ops})
}

// OnHost adds GPU rows for ops that compute in host memory, for the given types of an attribute or, if types is nil, for all types that the
// CPU has. TensorFlow's own GPU kernels declare which operands stay on the host: mostly int32 tensors, since they are shapes, sizes and
// axes.
func (t *Table) OnHost(attr string, types []tensor.DType, ops ...string) {
	s := Sharing{HostInputs: []string{Everything}, HostOutputs: []string{Everything}}
	if types != nil {
		s.Types = map[string][]tensor.DType{attr: types}
	}
	t.Share(s, ops...)
}

// Passing adds GPU rows for ops that read no elements in the device's memory. If attr is int32, all arguments are on the host; for other
// types, only the named ones are.
func (t *Table) Passing(attr string, hostInputs, hostOutputs []string, ops ...string) {
	t.Share(Sharing{Types: map[string][]tensor.DType{attr: dtypes.BesideInt32}, HostInputs: hostInputs, HostOutputs: hostOutputs}, ops...)
	t.OnHost(attr, dtypes.Int32, ops...)
}

// Moving adds GPU rows, for the given types, for ops that compute where elements go and leave the moving to package layout, which knows
// which memory tensors are in. The inputs in hostInputs are on the host.
func (t *Table) Moving(attr string, types []tensor.DType, hostInputs []string, ops ...string) {
	t.Share(Sharing{Types: map[string][]tensor.DType{attr: types}, HostInputs: hostInputs}, ops...)
}

// registry maps an op and a device type to its rows in order of registration.
var registry = map[string]map[string][]*Def{}

// Register adds tables to the registry. It is called before the process's first server starts, by package kernels/all, and by tests that
// replace rows. It must not run concurrently with anything else in this package. It panics if a table shares rows that do not exist.
func Register(tables ...*Table) {
	for _, t := range tables {
		for _, row := range t.rows {
			enter(row)
		}
		for _, s := range t.shared {
			for _, op := range s.ops {
				cpu := registry[op]["CPU"]
				if len(cpu) == 0 {
					panic(fmt.Sprintf("kernels: cannot share the CPU rows of %s with GPUs: there are none", op))
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
	r.New = admitted(r.New)
	registry[r.Op][r.Device] = append(registry[r.Op][r.Device], &r)
}

// row returns the GPU's row derived from a CPU's row, or false if no types are left.
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

// Rows returns an op's rows for a type of device, in order of registration. The caller must not change them.
func Rows(op, deviceType string) []*Def { return registry[op][deviceType] }
