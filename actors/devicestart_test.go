package actors

import (
	"strings"
	"sync/atomic"
	"testing"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// invented is the type of a device with its own memory, as the passes over graphs see it. Its kernels are the CPU's.
const invented = "INVENTED"

func init() {
	table := &kernels.Table{}
	for op, host := range map[string][]string{"Const": nil, "Neg": nil, "Identity": nil, "VarHandleOp": nil, "AssignVariableOp": nil,
		"ReadVariableOp": nil, "_Send": nil, "_Recv": nil, "_HostSend": nil, "_HostRecv": nil, "Switch": {"pred"}, "AddV2": {"y"}, "Mul": {"x"},
		"FIFOQueueV2": nil} {
		row := kernels.Def{Op: op, Device: invented, HostInputs: host, New: func(c *kernels.Construction) (any, error) {
			def, err := kernels.Find(c.Node, "CPU")
			if err != nil {
				return nil, err
			}
			return def.New(c)
		}}
		if op == "Mul" {
			row.HostOutputs = []string{"z"}
		}
		table.Add(row)
	}
	kernels.Register(table)
}

// losable is a device that can be lost.
type losable struct {
	*devices.CPU
	life    *atomic.Uint64
	all     *[]*containers.Manager
	watcher *devices.Watcher // its executor
}

var _ devices.Losable = losable{}

func (d losable) Watch(w devices.Watcher) (stop func()) {
	*d.watcher = w
	w.DeviceStarted(d.Incarnation())
	return func() { *d.watcher = nil }
}

func (losable) Revive() {}

// lose takes the device out of service.
func (d losable) lose() {
	(*d.watcher).DeviceLost(status.Errorf(status.Unavailable, "%s was lost and is started anew: it fell off the bus", d.Name()))
}

// start restarts the device.
func (d losable) start(t *testing.T) {
	t.Helper()
	for _, m := range *d.all {
		if err := m.Empty(); err != nil {
			t.Error(err)
		}
	}
	d.life.Add(1)
	(*d.watcher).DeviceStarted(d.Incarnation())
}

func (d losable) Type() string        { return invented }
func (d losable) Incarnation() uint64 { return d.life.Load() }
func (d losable) WithResources(r *containers.Manager) devices.Device {
	*d.all = append(*d.all, r)
	return losable{d.CPU.WithResources(r).(*devices.CPU), d.life, d.all, d.watcher}
}

// losableNetwork starts tasks with an invented device each and returns the devices by job.
func losableNetwork(t *testing.T, jobs ...string) (*network, map[string]losable) {
	net := newNetwork(t)
	all := map[string]losable{}
	net.more = func(n *node, job string) []devices.Device {
		d := losable{devices.NewCPU(n.system, n.name+"/device:"+invented+":0", job, 0), &atomic.Uint64{}, new([]*containers.Manager), new(devices.Watcher)}
		*d.all = append(*d.all, d.Resources())
		d.life.Store(1)
		all[job] = d
		return []devices.Device{d}
	}
	for _, job := range jobs {
		net.tasks = append(net.tasks, taskName(job))
	}
	for _, job := range jobs {
		net.start(job)
	}
	return net, all
}

// invent puts the nodes whose name begins with i on the invented device of their task.
func invent(def *graphpb.GraphDef) *graphpb.GraphDef {
	for _, n := range def.Node {
		if strings.HasPrefix(n.Name, "i") {
			n.Device = strings.ReplaceAll(n.Device, "/device:CPU:0", "/device:"+invented+":0")
		}
	}
	return def
}

func openInvented(t *testing.T, n *node, text string, config *corepb.ConfigProto) *client {
	t.Helper()
	handle, err := n.task.CreateSession(t.Context(), 0, everything, invent(kernelstest.GraphDef(t, text)), config)
	if err != nil {
		t.Fatal(err)
	}
	s, err := n.task.Session(handle, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &client{t, n, s}
}

const lossyText = `
	x = Placeholder() @a0
	iv = VarHandleOp() shared_name="v" @a0
	iset = AssignVariableOp(iv, x) @a0
	iread = ReadVariableOp(iv) @a0
	ineg = Neg(iread) @a0
	v = VarHandleOp() shared_name="w" @a0
	set = AssignVariableOp(v, x) @a0
	read = ReadVariableOp(v) @a0
`

func TestTransfersWithinADevice(t *testing.T) {
	net, _ := losableNetwork(t, "a", "b")
	c := openInvented(t, net.node(taskName("a")), `
		x = Placeholder() @a0
		in = Neg(x) @b0
		ik = Neg(x) @a0
		iadd = AddV2(in, in) @b0
		imul = Mul(iadd, in) @b0
		isum = AddV2(imul, imul) @b0
		iend = AddV2(ik, isum) @a0
		y = Neg(iend) @a0
	`, nil)
	// n = -3, add = -6, mul = 18, sum = 36, end = -3 + 36.
	for range 3 {
		c.run(request(map[string]int64{"x:0": 3}, "y:0", "iend:0", "isum:0"), -33, 33, 36)
	}
}

// TestLostDevice loses a device of the master's own task, and one of another task.
func TestLostDevice(t *testing.T) {
	for _, master := range []string{"a", "b"} {
		t.Run("master "+master, func(t *testing.T) {
			net, all := losableNetwork(t, "a", "b")
			n := net.node(taskName(master))
			c := openInvented(t, n, lossyText, nil)
			idle := openInvented(t, n, lossyText, nil)
			private := openInvented(t, n, lossyText, &corepb.ConfigProto{IsolateSessionState: true})
			for _, c := range []*client{c, private} {
				c.run(request(map[string]int64{"x:0": 7}, "!iset", "!set"))
				c.run(request(nil, "ineg:0"), -7)
			}
			idle.run(request(nil, "iread:0"), 7)
			all["a"].lose()
			for _, c := range []*client{c, idle, private} {
				_, err := c.try(t.Context(), request(nil, "iread:0", "read:0"))
				wantError(t, err, status.Unavailable, "/job:a/replica:0/task:0/device:INVENTED:0 was lost", "off the bus")
				c.run(request(nil, "read:0"), 7)
			}
			all["a"].start(t)
			for _, c := range []*client{c, idle, private} {
				// The loss is reported once, whatever the signature: the variable on the device is gone, that of the CPU is not.
				_, err := c.try(t.Context(), request(nil, "iread:0", "read:0"))
				wantError(t, err, status.Aborted, "/job:a/replica:0/task:0/device:INVENTED:0 was lost and started anew")
				_, err = c.try(t.Context(), request(nil, "ineg:0"))
				wantError(t, err, status.FailedPrecondition, "{{node iread}}")
				c.run(request(nil, "read:0"), 7)
			}
			c.run(request(map[string]int64{"x:0": 8}, "!iset"))
			idle.run(request(nil, "ineg:0"), -8)
			_, err := private.try(t.Context(), request(nil, "iread:0"))
			wantError(t, err, status.FailedPrecondition, "{{node iread}}")
			after := openInvented(t, n, lossyText, nil)
			after.run(request(nil, "iread:0"), 8)
		})
	}
}

// TestDeviceLostUnderSteps: a loss ends the steps of all masters that run on the device, with the reason. Steps elsewhere continue.
func TestDeviceLostUnderSteps(t *testing.T) {
	for _, master := range []string{"a", "b"} {
		t.Run("master "+master, func(t *testing.T) {
			net, all := losableNetwork(t, "a", "b")
			n := net.node(taskName(master))
			const text = `
				q = FIFOQueueV2() shared_name="q" @a0
				get = QueueDequeueV2(q) @a0
				iget = Neg(get) @a0
				v = Placeholder() @a0
				put = QueueEnqueueV2(q, v) @a0
			`
			c := openInvented(t, n, text, nil)
			waits := func(fetch string) <-chan error {
				ended := make(chan error, 1)
				go func() {
					_, err := c.try(t.Context(), request(nil, fetch))
					ended <- err
				}()
				return ended
			}
			lost := []<-chan error{waits("iget:0"), waits("iget:0")}
			device := all["a"].Name()
			executor := net.node(taskName("a")).task.executors[device]
			until(t, "two parts run", func() bool { return executor.State().PartsRunning == 2 })
			kept := waits("get:0")
			all["a"].lose()
			for _, ended := range lost {
				wantError(t, <-ended, status.Unavailable, device+" was lost", "off the bus")
			}
			s := net.node(taskName("a")).task.DeviceState(executor.Role().Name())
			if s.PartsFailed != 2 || s.PartsRunning != 0 || s.Losses != 1 || !strings.Contains(s.Lost, "off the bus") {
				t.Errorf("%v", s)
			}
			c.run(request(map[string]int64{"v:0": 3}, "!put"))
			if err := <-kept; err != nil {
				t.Error(err)
			}
			all["a"].start(t)
			c.run(request(map[string]int64{"v:0": 4}, "!put"))
			_, err := c.try(t.Context(), request(nil, "iget:0"))
			wantError(t, err, status.Aborted, "was lost and started anew")
			c.run(request(nil, "iget:0"), -4)
			if d := net.node(taskName("a")).task.Describe(); d[1].Incarnation != all["a"].Incarnation() {
				t.Errorf("%v", d)
			}
		})
	}
}
