package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/devices/cards"
	"github.com/troupe-run/troupe/devices/cuda"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// rig is a fake machine with cards.
type rig struct {
	cards  []cards.Card
	why    error
	broken int // the card that cannot be opened; -1 for none
	open   int
}

// inventedGPU is a device of a rig whose memory is the host's.
type inventedGPU struct {
	*devices.CPU
	rig  *rig
	plan cards.Device
}

func (r *rig) Cards() ([]cards.Card, error) { return r.cards, r.why }

func (r *rig) Open(plan cards.Device, at devices.Place) (devices.Device, error) {
	if plan.Card == r.broken {
		return nil, status.Internalf("%s is broken", at.Name)
	}
	r.open++
	return inventedGPU{devices.NewCPU(at.System, at.Name, at.Job, plan.MemoryLimit), r, plan}, nil
}

func (g inventedGPU) Type() string        { return "GPU" }
func (g inventedGPU) Description() string { return g.plan.Description }
func (g inventedGPU) Close() error        { g.rig.open--; return nil }
func (g inventedGPU) WithResources(r *containers.Manager) devices.Device {
	return inventedGPU{g.CPU.WithResources(r).(*devices.CPU), g.rig, g.plan}
}

var twoCards = []cards.Card{{Name: "A", PCI: "0000:01:00.0", Memory: 8 << 30, Compute: 90, Processors: 100},
	{Name: "B", PCI: "0000:02:00.0", Memory: 16 << 30, Compute: 80, Processors: 100}}

// serve runs a task with a rig, and returns what it logged.
func serve(t *testing.T, gpus devices.GPUs, config *corepb.ConfigProto) (*Node, *bytes.Buffer, error) {
	t.Helper()
	log := &bytes.Buffer{}
	s, err := spec.New(map[string]map[int]string{"w": {0: spectest.Addresses(t, 1)[0]}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Listen(Config{Spec: s, Job: "w", GPUs: gpus, GPUConfig: config, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	err = n.Serve(t.Context())
	return n, log, err
}

func stop(t *testing.T, n *Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func TestGPUsOfATask(t *testing.T) {
	list := &corepb.ConfigProto{GpuOptions: &corepb.GPUOptions{VisibleDeviceList: "1,0", PerProcessGpuMemoryFraction: 0.5}}
	none := &corepb.ConfigProto{DeviceCount: map[string]int32{"GPU": 0}}
	for _, c := range []struct {
		name   string
		rig    *rig
		config *corepb.ConfigProto
		want   []client.Device
		log    string // a part of it
		silent bool
		code   status.Code
		err    string
	}{
		{name: "no driver", rig: &rig{why: errors.New("there is no libcuda.so.1")}, log: `level=INFO msg="no GPU is used" reason="there is no libcuda.so.1"`},
		{name: "without CUDA", rig: &rig{why: cuda.ErrWithout}, silent: true},
		{name: "asked without CUDA", rig: &rig{why: cuda.ErrWithout}, config: &corepb.ConfigProto{DeviceCount: map[string]int32{"GPU": 1}},
			log: `level=INFO msg="no GPU is used" reason="this binary was built without CUDA`},
		{name: "none wanted", rig: &rig{cards: twoCards}, config: none, silent: true},
		{name: "two", rig: &rig{cards: twoCards, broken: -1}, config: list, log: `msg="a GPU is used" device=/job:w/replica:0/task:0/device:GPU:1`,
			want: []client.Device{
				{Name: "/job:w/replica:0/task:0/device:GPU:0", Type: "GPU", MemoryLimit: 8 << 30, Local: true,
					Description: "device: 1, name: B, pci bus id: 0000:02:00.0, compute capability: 8.0"},
				{Name: "/job:w/replica:0/task:0/device:GPU:1", Type: "GPU", MemoryLimit: 4 << 30, Local: true,
					Description: "device: 0, name: A, pci bus id: 0000:01:00.0, compute capability: 9.0"}}},
		{name: "a bad list", rig: &rig{cards: twoCards[:1], broken: -1}, config: list, code: status.InvalidArgument, err: "'visible_device_list' listed an invalid Device id '1'"},
		{name: "a broken card", rig: &rig{cards: twoCards, broken: 1}, code: status.Internal, err: "/job:w/replica:0/task:0/device:GPU:1 is broken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var gpus devices.GPUs
			if c.rig != nil {
				gpus = c.rig
			}
			n, log, err := serve(t, gpus, c.config)
			if c.err != "" {
				if err == nil || status.CodeOf(err) != c.code || !strings.HasPrefix(err.Error(), c.err) || c.rig.open != 0 {
					t.Errorf("got %v: %v; %d cards are open", status.CodeOf(err), err, c.rig.open)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			checkDevices(t, n, c.want)
			stop(t, n)
			if !strings.Contains(log.String(), c.log) || c.silent && strings.Contains(log.String(), "GPU") {
				t.Errorf("logged %s\nwant %s", log, c.log)
			}
			if c.rig != nil && c.rig.open != 0 {
				t.Errorf("%d cards are open at the end", c.rig.open)
			}
		})
	}
}

// checkDevices asks a task for its devices as a client does, and compares the GPUs with want.
func checkDevices(t *testing.T, n *Node, want []client.Device) {
	t.Helper()
	c, err := client.Dial(t.Context(), n.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	all, err := c.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 || all[0].Name != n.Task().Name()+"/device:CPU:0" || all[0].Description != "" {
		t.Fatalf("the first device is none of a CPU: %v", all)
	}
	var got []client.Device
	for i, d := range all[1:] {
		if d.Incarnation == 0 || d.Incarnation == all[i].Incarnation {
			t.Errorf("the incarnation of %s is %d", d.Name, d.Incarnation)
		}
		d.Incarnation = 0
		got = append(got, d)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", fmt.Sprint(got), fmt.Sprint(want))
	}
}
