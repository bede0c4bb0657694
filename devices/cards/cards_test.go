package cards

import (
	"slices"
	"strings"
	"testing"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/encoding/prototext"
)

var (
	h100 = Card{Name: "NVIDIA H100 80GB HBM3", PCI: "0000:3b:00.0", Memory: 80 << 30, Compute: 90, Processors: 132}
	a100 = Card{Name: "NVIDIA A100", PCI: "0000:5e:00.0", Memory: 40 << 30, Compute: 80, Processors: 108}
	old  = Card{Name: "GeForce GTX 1080", PCI: "0000:01:00.0", Memory: 8 << 30, Compute: 61, Processors: 20}
	tiny = Card{Name: "T400", PCI: "0000:02:00.0", Memory: 2 << 30, Compute: 75, Processors: 6}
)

func config(t testing.TB, text string) *corepb.ConfigProto {
	t.Helper()
	c := &corepb.ConfigProto{}
	if err := prototext.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPlan(t *testing.T) {
	type device struct {
		card   int
		limit  int64
		growth bool
	}
	for _, c := range []struct {
		name   string
		config string
		found  []Card
		want   []device
		notes  string
		code   status.Code
		err    string
	}{
		{name: "all", found: []Card{h100, a100}, want: []device{{card: 0}, {card: 1}}},
		{name: "no cards", config: `gpu_options { visible_device_list: "7" }`},
		{name: "none wanted", config: `device_count { key: "GPU" value: 0 } gpu_options { visible_device_list: "7" }`, found: []Card{h100}},
		{name: "at most one", config: `device_count { key: "GPU" value: 1 }`, found: []Card{h100, a100}, want: []device{{card: 0}}},
		{name: "more than there are", config: `device_count { key: "GPU" value: 5 }`, found: []Card{h100}, want: []device{{card: 0}}},
		{name: "another kind's count", config: `device_count { key: "CPU" value: 0 }`, found: []Card{h100}, want: []device{{card: 0}}},
		{name: "a list", config: `gpu_options { visible_device_list: "1, 0" }`, found: []Card{h100, a100}, want: []device{{card: 1}, {card: 0}}},
		{name: "a list and a count", config: `device_count { key: "GPU" value: 1 } gpu_options { visible_device_list: "1,0" }`,
			found: []Card{h100, a100}, want: []device{{card: 1}}},
		{name: "with types", config: `gpu_options { visible_device_list: "GPU:1" }`, found: []Card{h100, a100}, want: []device{{card: 1}}},
		{name: "not a number", config: `gpu_options { visible_device_list: "0,x" }`, found: []Card{h100}, code: status.InvalidArgument,
			err: "Could not parse entry in 'visible_device_list': 'x'."},
		{name: "an empty entry", config: `gpu_options { visible_device_list: "0," }`, found: []Card{h100}, code: status.InvalidArgument,
			err: "Could not parse entry in 'visible_device_list': ''."},
		{name: "out of range", config: `gpu_options { visible_device_list: "0,2" }`, found: []Card{h100, a100}, code: status.InvalidArgument,
			err: "'visible_device_list' listed an invalid Device id '2' but visible device count is 2"},
		{name: "twice", config: `gpu_options { visible_device_list: "0,0" }`, found: []Card{h100}, code: status.InvalidArgument,
			err: "visible_device_list contained a duplicate entry: 0,0"},
		{name: "a share", config: `gpu_options { per_process_gpu_memory_fraction: 0.25 allow_growth: true allocator_type: "BFC" }`,
			found: []Card{h100}, want: []device{{0, 20 << 30, true}}},
		{name: "more than all", config: `gpu_options { per_process_gpu_memory_fraction: 1.5 }`, found: []Card{h100}, code: status.Unimplemented,
			err: "gpu_options.per_process_gpu_memory_fraction = 1.5: "},
		{name: "less than nothing", config: `gpu_options { per_process_gpu_memory_fraction: -0.1 }`, code: status.InvalidArgument,
			err: "gpu_options.per_process_gpu_memory_fraction must not be negative: -0.1"},
		{name: "not even a number", config: `gpu_options { per_process_gpu_memory_fraction: nan }`, code: status.InvalidArgument,
			err: "gpu_options.per_process_gpu_memory_fraction must not be negative: NaN"},
		{name: "unified memory", config: `gpu_options { experimental { use_unified_memory: true } }`, code: status.Unimplemented,
			err: "gpu_options.experimental.use_unified_memory is not supported"},
		{name: "another allocator", config: `gpu_options { allocator_type: "best" }`, code: status.InvalidArgument, err: "Invalid allocator type: best"},
		{name: "an old card, and a small one", found: []Card{old, h100, tiny}, want: []device{{card: 1}},
			notes: "Ignoring visible gpu device (device: 0, name: GeForce GTX 1080, pci bus id: 0000:01:00.0, compute capability: 6.1) with compute " +
				"capability 6.1. The minimum required compute capability is 7.0.\nIgnoring visible gpu device (device: 2, name: T400, pci bus id: " +
				"0000:02:00.0, compute capability: 7.5) with core count: 6. The minimum required count is 8."},
		{name: "a small card alone", found: []Card{tiny}, want: []device{{card: 0}}},
		{name: "virtual devices", config: `gpu_options { allow_growth: true experimental {
				virtual_devices { memory_limit_mb: 1024 memory_limit_mb: 512.5 } virtual_devices { } } }`, found: []Card{h100, a100},
			want: []device{{0, 1 << 30, true}, {0, 512 << 20, true}, {1, 0, true}}},
		{name: "virtual devices in an order", config: `gpu_options { experimental {
				virtual_devices { memory_limit_mb: 1 memory_limit_mb: 2 device_ordinal: 10 device_ordinal: 20 }
				virtual_devices { memory_limit_mb: 3 memory_limit_mb: 4 device_ordinal: 10 device_ordinal: 20 } } }`, found: []Card{h100, a100},
			want: []device{{0, 1 << 20, false}, {1, 3 << 20, false}, {0, 2 << 20, false}, {1, 4 << 20, false}}},
		{name: "virtual devices, no cards", config: `gpu_options { experimental { virtual_devices { memory_limit_mb: 1 } } }`},
		{name: "virtual devices, none wanted", config: `device_count { key: "GPU" value: 0 } gpu_options { experimental { virtual_devices { memory_limit_mb: 1 } } }`,
			code: status.Unknown, err: "Not enough GPUs to create virtual devices. num_gpus_to_use: 0 #virtual_devices: 1"},
		{name: "too few cards for them", config: `gpu_options { experimental { virtual_devices { } virtual_devices { } } }`, found: []Card{h100},
			code: status.Unknown, err: "Not enough GPUs to create virtual devices. num_gpus_to_use: 1 #virtual_devices: 2"},
		{name: "too many cards for them", config: `gpu_options { experimental { virtual_devices { } } }`, found: []Card{h100, a100},
			code: status.Unknown, err: "The number of valid GPUs doesn't match the number of elements in the virtual_devices list. #valid GPUs: 2 virtual_devices.size(): 1"},
		{name: "another list for them", config: `gpu_options { visible_device_list: "0,1" experimental { virtual_devices { } } }`, found: []Card{h100, a100},
			code: status.InvalidArgument, err: "The number of GPUs in visible_device_list doesn't match the number of elements in the virtual_devices list. " +
				"#GPUs in visible_device_list: 2 virtual_devices.size(): 1"},
		{name: "virtual devices and a share", config: `gpu_options { per_process_gpu_memory_fraction: 0.5 experimental { virtual_devices { } } }`,
			code: status.InvalidArgument, err: "It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set."},
		{name: "priorities", config: `gpu_options { experimental { virtual_devices { memory_limit_mb: 1 priority: 0 } } }`, code: status.Unimplemented,
			err: "gpu_options.experimental.virtual_devices.priority is not supported"},
		{name: "ordinals for some", config: `gpu_options { experimental { virtual_devices { memory_limit_mb: 1 device_ordinal: 0 } virtual_devices { } } }`,
			code: status.InvalidArgument, err: "Device ordinals must be set for all virtual devices or none."},
		{name: "fewer ordinals", config: `gpu_options { experimental { virtual_devices { memory_limit_mb: 1 memory_limit_mb: 2 device_ordinal: 0 } } }`,
			code: status.InvalidArgument, err: "Number of virtual device ordinals specified doesn't match with number of memory_limit_mb specified for GPU# 0 " +
				"memory_limit_mb size: 2 and device_ordinal size: 1"},
		{name: "a limit of nothing", config: `gpu_options { experimental { virtual_devices { memory_limit_mb: 0 } } }`, code: status.InvalidArgument,
			err: "gpu_options.experimental.virtual_devices: memory_limit_mb of GPU# 0 is 0"},
		{name: "a limit beyond all", config: `gpu_options { experimental { virtual_devices { memory_limit_mb: 1e30 } } }`, code: status.InvalidArgument,
			err: "gpu_options.experimental.virtual_devices: memory_limit_mb of GPU# 0 is 1e+30"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, notes, err := Plan(config(t, c.config), c.found)
			if c.err != "" {
				if err == nil || status.CodeOf(err) != c.code || !strings.HasPrefix(err.Error(), c.err) {
					t.Fatalf("got %v: %v, want %v: %s", status.CodeOf(err), err, c.code, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var devices []device
			for _, d := range got {
				devices = append(devices, device{d.Card, d.MemoryLimit, d.AllowGrowth})
			}
			if !slices.Equal(devices, c.want) {
				t.Errorf("got %v, want %v", devices, c.want)
			}
			if n := strings.Join(notes, "\n"); n != c.notes {
				t.Errorf("notes %s\nwant  %s", n, c.notes)
			}
		})
	}
}

func TestDescription(t *testing.T) {
	devices, _, err := Plan(config(t, `gpu_options { visible_device_list: "1" }`), []Card{a100, h100})
	if err != nil {
		t.Fatal(err)
	}
	if want := "device: 1, name: NVIDIA H100 80GB HBM3, pci bus id: 0000:3b:00.0, compute capability: 9.0"; devices[0].Description != want {
		t.Errorf("got %q, want %q", devices[0].Description, want)
	}
}

func TestUnused(t *testing.T) {
	got := Unused(config(t, `gpu_options { force_gpu_compatible: true polling_active_delay_usecs: 1 allow_growth: true visible_device_list: "0"
		experimental { collective_ring_order: "0" virtual_devices { } } }`))
	want := []string{"gpu_options.experimental.collective_ring_order", "gpu_options.force_gpu_compatible", "gpu_options.polling_active_delay_usecs"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Unused(nil); got != nil {
		t.Errorf("got %q of nothing", got)
	}
}
