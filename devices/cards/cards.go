// Package cards decides which GPU devices a server makes from the cards that it finds, according to TensorFlow's options
// ConfigProto.device_count["GPU"] and ConfigProto.gpu_options. It does not call a driver.
//
// The rules and the error texts are those of TensorFlow's gpu_device.cc and device_id_utils.cc.
package cards

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
)

// Card is a card as its driver describes it.
type Card struct {
	Name       string // such as NVIDIA H100 80GB HBM3
	PCI        string // bus id, such as 0000:3b:00.0
	Memory     int64  // total bytes
	Compute    int    // compute capability, major*10 + minor
	Processors int    // multiprocessors
}

// Device is a planned GPU device. Devices are made in the order of the plan, /device:GPU:0 first.
type Device struct {
	// Card is the index of its card among the cards found. Several devices may share a card.
	Card int
	// MemoryLimit bounds the bytes of its tensors. 0 means the card's free memory when the device starts, minus what TensorFlow leaves to
	// the system.
	MemoryLimit int64
	// AllowGrowth makes the device allocate memory as needed instead of all at once.
	AllowGrowth bool
	// Description describes the card for people, in TensorFlow's words.
	Description string
}

// The minimum for a card: the kernels are compiled for compute capability 7.0, and TensorFlow ignores cards with few multiprocessors if
// there are better ones.
const (
	minCompute    = 70
	minProcessors = 8
)

// Wanted reports whether the config allows a server any GPUs.
func Wanted(config *corepb.ConfigProto) bool {
	n, ok := config.GetDeviceCount()["GPU"]
	return !ok || n != 0
}

// Check refuses options that no cards could satisfy. For unsupported options it returns UNIMPLEMENTED and names the field.
func Check(config *corepb.ConfigProto) error {
	o := config.GetGpuOptions()
	fraction, virtual := o.GetPerProcessGpuMemoryFraction(), o.GetExperimental().GetVirtualDevices()
	switch {
	case fraction < 0 || math.IsNaN(fraction):
		return status.InvalidArgumentf("gpu_options.per_process_gpu_memory_fraction must not be negative: %v", fraction)
	case fraction > 1:
		return status.Unimplementedf("gpu_options.per_process_gpu_memory_fraction = %v: more than a card's memory would be unified memory, which is not supported", fraction)
	case o.GetExperimental().GetUseUnifiedMemory():
		return status.Unimplementedf("gpu_options.experimental.use_unified_memory is not supported")
	case o.GetAllocatorType() != "" && o.GetAllocatorType() != "BFC":
		return status.InvalidArgumentf("Invalid allocator type: %s (gpu_options.allocator_type may be BFC)", o.GetAllocatorType())
	case len(virtual) > 0 && fraction > 0:
		return status.InvalidArgumentf("It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set.")
	}
	for i, v := range virtual {
		limits, ordinals := v.GetMemoryLimitMb(), v.GetDeviceOrdinal()
		switch {
		case len(v.GetPriority()) > 0:
			return status.Unimplementedf("gpu_options.experimental.virtual_devices.priority is not supported")
		case (len(ordinals) == 0) != (len(virtual[0].GetDeviceOrdinal()) == 0):
			return status.InvalidArgumentf("Device ordinals must be set for all virtual devices or none. But the device_ordinal is "+
				"specified for %d while previous devices didn't have any set.", i)
		case len(ordinals) > 0 && len(ordinals) != len(limits):
			return status.InvalidArgumentf("Number of virtual device ordinals specified doesn't match with number of memory_limit_mb "+
				"specified for GPU# %d memory_limit_mb size: %d and device_ordinal size: %d", i, len(limits), len(ordinals))
		}
		for _, mb := range limits {
			if !(mb >= 1) || mb > maxMegabytes {
				return status.InvalidArgumentf("gpu_options.experimental.virtual_devices: memory_limit_mb of GPU# %d is %v", i, mb)
			}
		}
	}
	if n, ok := config.GetDeviceCount()["GPU"]; ok && n == 0 && len(virtual) > 0 {
		return notEnough(0, len(virtual))
	}
	return nil
}

// maxMegabytes keeps limits in bytes within 63 bits.
const maxMegabytes = 1 << 42

func notEnough(have, want int) error {
	return status.Errorf(status.Unknown, "Not enough GPUs to create virtual devices. num_gpus_to_use: %d #virtual_devices: %d", have, want)
}

// Plan returns the devices that the config asks for, and notes about cards that are ignored and why. A visible_device_list that does not
// match the cards is INVALID_ARGUMENT.
func Plan(config *corepb.ConfigProto, found []Card) (devices []Device, notes []string, err error) {
	if err := Check(config); err != nil {
		return nil, nil, err
	}
	if !Wanted(config) || len(found) == 0 {
		return nil, nil, nil
	}
	o := config.GetGpuOptions()
	visible, err := visibleCards(o.GetVisibleDeviceList(), len(found))
	if err != nil {
		return nil, nil, err
	}
	valid, notes := usable(visible, found)
	use := len(valid)
	if n, ok := config.GetDeviceCount()["GPU"]; ok && n > 0 { // TensorFlow takes all if it is negative
		use = min(use, int(n))
	}
	virtual := o.GetExperimental().GetVirtualDevices()
	if len(virtual) > 0 {
		if err := fit(o, len(virtual), use, len(visible), len(valid)); err != nil {
			return nil, nil, err
		}
		use = len(virtual)
	}
	var ordinals []int32
	for i, card := range valid[:use] {
		d := Device{Card: card, AllowGrowth: o.GetAllowGrowth(), Description: found[card].describe(card)}
		if len(virtual) == 0 || len(virtual[i].GetMemoryLimitMb()) == 0 {
			if fraction := o.GetPerProcessGpuMemoryFraction(); fraction > 0 {
				d.MemoryLimit = max(int64(float64(found[card].Memory)*fraction), 1)
			}
			devices, ordinals = append(devices, d), append(ordinals, 0)
			continue
		}
		for j, mb := range virtual[i].GetMemoryLimitMb() {
			d.MemoryLimit = int64(mb) << 20
			ordinal := int32(0)
			if all := virtual[i].GetDeviceOrdinal(); len(all) > 0 {
				ordinal = all[j]
			}
			devices, ordinals = append(devices, d), append(ordinals, ordinal)
		}
	}
	return byOrdinal(devices, ordinals), notes, nil
}

// byOrdinal sorts virtual devices by their ordinals, or keeps their order if there are none.
func byOrdinal(devices []Device, ordinals []int32) []Device {
	order := make([]int, len(devices))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ordinals[a], ordinals[b]) })
	sorted := make([]Device, len(devices))
	for to, from := range order {
		sorted[to] = devices[from]
	}
	return sorted
}

// fit checks the virtual devices, one list element per card, against the cards.
func fit(o *corepb.GPUOptions, virtual, use, visible, valid int) error {
	switch {
	case use < virtual:
		return notEnough(use, virtual)
	case o.GetVisibleDeviceList() != "" && visible != virtual:
		return status.InvalidArgumentf("The number of GPUs in visible_device_list doesn't match the number of elements in the virtual_devices "+
			"list. #GPUs in visible_device_list: %d virtual_devices.size(): %d", visible, virtual)
	case valid != virtual:
		return status.Errorf(status.Unknown, "The number of valid GPUs doesn't match the number of elements in the virtual_devices list. "+
			"#valid GPUs: %d virtual_devices.size(): %d", valid, virtual)
	}
	return nil
}

// visibleCards parses a list such as "1,0": indexes of the driver's cards, in the order of the devices. An empty list means all.
func visibleCards(list string, count int) ([]int, error) {
	var order []int
	if list == "" {
		for i := range count {
			order = append(order, i)
		}
		return order, nil
	}
	for _, entry := range strings.Split(list, ",") {
		id, err := cardID(entry)
		switch {
		case err != nil:
			return nil, err
		case id == -1: // as in TensorFlow, whatever it means
			continue
		case id < 0 || id >= count:
			return nil, status.InvalidArgumentf("'visible_device_list' listed an invalid Device id '%d' but visible device count is %d", id, count)
		case slices.Contains(order, id):
			return nil, status.InvalidArgumentf("visible_device_list contained a duplicate entry: %s", list)
		}
		order = append(order, id)
	}
	return order, nil
}

// cardID parses an entry of a visible_device_list: an index, or TYPE:index.
func cardID(entry string) (int, error) {
	id, err := strconv.ParseInt(strings.TrimSpace(entry), 10, 32)
	if parts := strings.Split(entry, ":"); err != nil && len(parts) == 2 {
		id, err = strconv.ParseInt(strings.TrimSpace(parts[1]), 10, 32)
	}
	if err != nil {
		return 0, status.InvalidArgumentf("Could not parse entry in 'visible_device_list': '%s'.", entry)
	}
	return int(id), nil
}

// usable returns the visible cards that can run kernels.
func usable(visible []int, found []Card) (valid []int, notes []string) {
	least := 0
	for _, i := range visible {
		least = max(least, found[i].Processors)
	}
	least = min(least, minProcessors)
	for _, i := range visible {
		c := found[i]
		switch {
		case c.Compute < minCompute:
			notes = append(notes, fmt.Sprintf("Ignoring visible gpu device (%s) with compute capability %s. The minimum required compute capability is %s.",
				c.describe(i), version(c.Compute), version(minCompute)))
		case c.Processors < least:
			notes = append(notes, fmt.Sprintf("Ignoring visible gpu device (%s) with core count: %d. The minimum required count is %d.",
				c.describe(i), c.Processors, least))
		default:
			valid = append(valid, i)
		}
	}
	return valid, notes
}

// describe returns TensorFlow's physical_device_desc, which its Python client parses.
func (c Card) describe(index int) string {
	return fmt.Sprintf("device: %d, name: %s, pci bus id: %s, compute capability: %s", index, c.Name, c.PCI, version(c.Compute))
}

func version(compute int) string { return fmt.Sprintf("%d.%d", compute/10, compute%10) }
