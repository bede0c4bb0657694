package place

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
)

// Device is a device that nodes may be placed on. It has none of the attributes in package device that do not affect placement, such as
// the incarnation: masters reuse Prepared devices while the list stays equal.
type Device struct {
	// Name is the full canonical name, Spec its parts.
	Name string
	Spec Spec
	// Local is whether the device belongs to the master's own task.
	Local bool
	// Functions is whether nodes on the device can call functions of the program that owns its server.
	Functions device.Functions
}

// NewDevice returns the Device with a full name. local is whether it belongs to the master's own task.
func NewDevice(name string, local bool) (Device, error) {
	s, err := Parse(name)
	if err != nil {
		return Device{}, err
	}
	if !s.IsFull() {
		return Device{}, status.InvalidArgumentf("Device name '%s' is not fully specified", name)
	}
	return Device{Name: s.String(), Spec: s, Local: local}, nil
}

// FilterDevices returns the devices that a session with ConfigProto.device_filters may use: those that at least one filter allows, and all
// of the master's own task. Without filters it returns all devices. A filter that is not a device name is INVALID_ARGUMENT.
func FilterDevices(devices []Device, filters []string, ownTask string) ([]Device, error) {
	if len(filters) == 0 {
		return slices.Clone(devices), nil
	}
	own, err := Parse(ownTask)
	if err != nil {
		return nil, err
	}
	allowed := []Spec{own.OnTask()}
	for _, f := range filters {
		s, err := Parse(f)
		if err != nil {
			return nil, status.InvalidArgumentf("Invalid device filter '%s'", f)
		}
		allowed = append(allowed, s)
	}
	var kept []Device
	for _, d := range devices {
		if slices.ContainsFunc(allowed, func(s Spec) bool { return s.Compatible(d.Spec) }) {
			kept = append(kept, d)
		}
	}
	return kept, nil
}

// typeOrder is TensorFlow's preference for each device type that a node may run on.
var typeOrder = map[string]int{"GPU": 210, "CPU": 70}

// types is a set of device types, as bits in the order of deviceSet.types. The empty set is for ops without any kernel: they may be placed
// on any device, and fail when they run.
type types uint64

// Prepared holds devices in a form ready for repeated placement. It is not safe for concurrent use.
type Prepared struct {
	given []Device
	set   *deviceSet
}

// Prepare orders devices; there must be at least one, and they must not be changed afterwards.
func Prepare(devices []Device) (*Prepared, error) {
	set, err := newDeviceSet(devices)
	if err != nil {
		return nil, err
	}
	return &Prepared{devices, set}, nil
}

// Devices returns the devices as they were given. They must not be changed.
func (p *Prepared) Devices() []Device { return p.given }

// Has reports whether there is a device with that full name.
func (p *Prepared) Has(name string) bool {
	_, has := p.set.byName[name]
	return has
}

// Share returns the same devices for another user, which may use them concurrently with p.
func (p *Prepared) Share() *Prepared {
	set := *p.set
	set.found = map[query][]int{}
	return &Prepared{p.given, &set}
}

// deviceSet holds the devices of a session in order of preference.
type deviceSet struct {
	devices []Device
	kinds   []types // the type of each device, as a set of one
	byName  map[string]int
	types   []string // at most 64, most preferred first
	cpu     types
	found   map[query][]int
	// functions is whether one of the devices is known to have functions of a program, and varied whether devices differ in that.
	functions, varied bool
}

// maxFound bounds the number of cached query results.
const maxFound = 1 << 12

type query struct {
	spec  Spec
	types types
	calls bool
}

// newDeviceSet orders the devices: better types first, then those of the master's own task, then by name (as strings: task 10 comes before
// task 2, as in TensorFlow).
func newDeviceSet(devices []Device) (*deviceSet, error) {
	if len(devices) == 0 {
		return nil, status.Errorf(status.FailedPrecondition, "No devices are registered")
	}
	s := &deviceSet{devices: slices.Clone(devices), byName: make(map[string]int, len(devices)), found: map[query][]int{}}
	slices.SortStableFunc(s.devices, func(a, b Device) int {
		if c := compareTypes(a.Spec.Type, b.Spec.Type); c != 0 {
			return c
		}
		if a.Local != b.Local {
			return map[bool]int{true: -1, false: 1}[a.Local]
		}
		return strings.Compare(a.Name, b.Name)
	})
	for i, d := range s.devices {
		if !slices.Contains(s.types, d.Spec.Type) {
			s.types = append(s.types, d.Spec.Type)
		}
		s.byName[d.Name] = i
	}
	if len(s.types) > 64 {
		return nil, status.InvalidArgumentf("The devices are of %d types, the limit is 64", len(s.types))
	}
	for _, d := range s.devices {
		s.kinds = append(s.kinds, 1<<slices.Index(s.types, d.Spec.Type))
		s.functions = s.functions || d.Functions == device.HasFunctions
		s.varied = s.varied || d.Functions != s.devices[0].Functions
		if d.Spec.Type == "CPU" {
			s.cpu = s.kinds[len(s.kinds)-1]
		}
	}
	return s, nil
}

func compareTypes(a, b string) int {
	return cmp.Or(cmp.Compare(typeOrder[b], typeOrder[a]), strings.Compare(a, b))
}

// candidates returns the indices of the devices that match spec and are of one of the types, best first. The empty set of types means
// CPUs, or whatever matches if no CPU does. If calls is set, they are those of calling.
func (s *deviceSet) candidates(spec Spec, of types, calls bool) []int {
	q := query{spec, of, calls}
	if c, ok := s.found[q]; ok {
		return c
	}
	var c []int
	switch of {
	case 0:
		if c = s.matching(spec, s.cpu); len(c) == 0 {
			c = s.matching(spec, ^types(0))
		}
	default:
		c = s.matching(spec, of)
	}
	if calls {
		c = s.calling(c)
	}
	if len(s.found) >= maxFound {
		clear(s.found)
	}
	s.found[q] = c
	return c
}

func (s *deviceSet) matching(spec Spec, of types) []int {
	var c []int
	for i := range s.devices {
		if s.kinds[i]&of != 0 && spec.Matches(s.devices[i].Spec) {
			c = append(c, i)
		}
	}
	return c
}

// tasks returns the sorted names of the tasks that have one of the devices with the numbers that of selects.
func (s *deviceSet) tasks(of func(i int) bool) []string {
	var names []string
	for i := range s.devices {
		if of(i) {
			names = append(names, s.devices[i].Spec.OnTask().String())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// typeNames returns the names of a set's types, most preferred first.
func (s *deviceSet) typeNames(t types) []string {
	var names []string
	for ; t != 0; t &= t - 1 {
		names = append(names, s.types[bits.TrailingZeros64(uint64(t))])
	}
	return names
}

// sortedNames returns the names of all devices, for messages.
func (s *deviceSet) sortedNames() string {
	names := make([]string, len(s.devices))
	for i, d := range s.devices {
		names[i] = d.Name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
