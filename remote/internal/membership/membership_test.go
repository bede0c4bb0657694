package membership

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 15 * time.Second

// quick configures a gossip that finds a dead task in less than a second.
func quick(c *memberlist.Config) {
	c.ProbeInterval, c.ProbeTimeout, c.GossipInterval = 100*time.Millisecond, 50*time.Millisecond, 20*time.Millisecond
	c.SuspicionMult, c.SuspicionMaxTimeoutMult = 2, 2
}

// lockedBuffer is a log for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// process is one task's port, links and membership.
type process struct {
	t      *testing.T
	port   *port.Port
	links  *link.Links
	m      *Membership
	events chan Event
	kept   []Event
	log    *lockedBuffer
	boot   uint64
	ended  sync.Once
}

// start starts the task; bind is where it listens, if not at its address.
func start(t *testing.T, s *spec.Spec, index int, bind string) (*process, error) {
	t.Helper()
	return startTelling(t, s, index, bind, func(Event) {})
}

// startTelling is start with a handler that is called for each event.
func startTelling(t *testing.T, s *spec.Spec, index int, bind string, tell func(Event)) (*process, error) {
	t.Helper()
	task, err := s.Task("worker", index)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, events: make(chan Event, 256), log: &lockedBuffer{}, boot: rand.Uint64()}
	logger := slog.New(slog.NewTextHandler(p.log, nil))
	if p.port, err = port.Listen(port.Config{Address: task.Address, Bind: bind, Logger: logger}); err != nil {
		t.Fatal(err)
	}
	p.links = link.New(link.Config{Spec: s, Self: task, Boot: p.boot, Call: p.port.Call, Logger: logger,
		Devices: []device.Attributes{{Name: task.Name() + "/device:CPU:0", Type: "CPU", MemoryLimit: 1 << 40, Incarnation: p.boot + 1}}})
	p.links.Register(p.port.Services())
	p.port.Services().Open()
	t.Cleanup(p.kill)
	p.m, err = Start(deadline(t, patience), Config{Spec: s, Self: task, Port: p.port, Links: p.links, Logger: logger, tune: quick,
		Events: func(e Event) {
			tell(e)
			p.events <- e
		}})
	return p, err
}

func deadline(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func mustStart(t *testing.T, s *spec.Spec, index int) *process {
	t.Helper()
	p, err := start(t, s, index, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// kill ends the process without notifying anybody.
func (p *process) kill() {
	p.ended.Do(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		if p.m != nil {
			if err := p.m.Leave(over); err != nil {
				p.t.Error(err)
			}
			p.m.work.Wait()
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := p.port.Stop(ctx); err != nil {
			p.t.Error(err)
		}
		if err := p.links.Close(ctx); err != nil {
			p.t.Error(err)
		}
	})
}

// expect waits for an event of the task, or of any task for index -1. It keeps other events for later.
func (p *process) expect(index int, what string, match func(Event) bool) Event {
	p.t.Helper()
	fits := func(e Event) bool { return (index < 0 || e.Member.Task.Index == index) && match(e) }
	if i := slices.IndexFunc(p.kept, fits); i >= 0 {
		e := p.kept[i]
		p.kept = slices.Delete(p.kept, i, i+1)
		return e
	}
	limit := time.After(patience)
	for {
		select {
		case e := <-p.events:
			if fits(e) {
				return e
			}
			p.kept = append(p.kept, e)
		case <-limit:
			p.t.Fatalf("%s did not happen; the view is %+v", what, p.m.View())
		}
	}
}

func isUp(e Event) bool   { return e.Refused == nil && e.Member.Health == Up }
func isDown(e Event) bool { return e.Refused == nil && e.Member.Health == Down }

// TestWhoSeesATaskSeesItLeave checks that a task that has just learned of another also learns that it leaves, whichever of the two started
// the exchange of views.
func TestWhoSeesATaskSeesItLeave(t *testing.T) {
	for range 40 {
		s := testSpec(t, 2)
		b := mustStart(t, s, 1)
		seen, left := make(chan struct{}), make(chan error)
		see := sync.OnceFunc(func() { close(seen) })
		go func() {
			<-seen
			left <- b.m.Leave(deadline(t, patience))
		}()
		a, err := startTelling(t, s, 0, "", func(e Event) {
			if isUp(e) {
				see()
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if e := a.expect(1, "leave", isDown); e.Member.Reason != "it has left" {
			t.Errorf("%+v", e)
		}
		if err := <-left; err != nil {
			t.Error(err)
		}
		a.kill()
		b.kill()
	}
}

// testSpec declares n tasks.
func testSpec(t *testing.T, n int) *spec.Spec {
	t.Helper()
	s, err := spec.Parse("worker=" + strings.Join(spectest.Addresses(t, n), ","))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTasksFindEachOther(t *testing.T) {
	s := testSpec(t, 4)
	a := mustStart(t, s, 0)
	if v := a.m.View(); v[0].Health != Up || v[0].Boot != a.boot || v[1].Health != NeverSeen || v[3].Task.Index != 3 {
		t.Errorf("alone: %+v", v)
	}
	b, c := mustStart(t, s, 1), mustStart(t, s, 2)
	for _, p := range []*process{a, b, c} {
		for i, other := range []*process{a, b, c} {
			if other != p {
				e := p.expect(i, "join", isUp)
				if e.Member.Boot != other.boot || e.Restarted {
					t.Errorf("task %d: %+v", i, e)
				}
				d := e.Member.Devices
				if len(d) != 1 || d[0].Name != fmt.Sprintf("/job:worker/replica:0/task:%d/device:CPU:0", i) || d[0].MemoryLimit != 1<<40 || d[0].Incarnation != other.boot+1 {
					t.Errorf("devices of task %d: %v", i, d)
				}
			}
		}
	}
	if v := c.m.View(); v[0].Health != Up || v[1].Boot != b.boot || v[3].Health != NeverSeen {
		t.Errorf("the view of the last: %+v", v)
	}
}

// TestLogOfGossip checks that memberlist's errors are logged while the task is in the gossip, and no longer once it leaves: its timers and readers
// then meet connections that are closed.
func TestLogOfGossip(t *testing.T) {
	for _, leaving := range []bool{false, true} {
		log := &lockedBuffer{}
		m := &Membership{log: slog.New(slog.NewTextHandler(log, nil))}
		m.leaving.Store(leaving)
		c := m.logger()
		c.Print("[ERR] memberlist: Failed to send gossip to 10.0.0.1:2222: use of closed network connection")
		c.Print("[DEBUG] memberlist: something else")
		if text := log.String(); strings.Contains(text, "closed network connection") == leaving || strings.Contains(text, "something else") {
			t.Errorf("leaving %v: %s", leaving, text)
		}
	}
}

func TestCrashAndRestart(t *testing.T) {
	s := testSpec(t, 3)
	a, b, c := mustStart(t, s, 0), mustStart(t, s, 1), mustStart(t, s, 2)
	for _, p := range []*process{a, b} {
		p.expect(2, "join", isUp)
	}
	c.kill()
	for _, p := range []*process{a, b} {
		if e := p.expect(2, "death", isDown); e.Member.Boot != c.boot || e.Member.Reason != "it does not answer the gossip" {
			t.Errorf("%+v", e)
		}
	}
	again := mustStart(t, s, 2)
	for _, p := range []*process{a, b} {
		if e := p.expect(2, "return", isUp); e.Member.Boot != again.boot {
			t.Errorf("%+v", e)
		}
	}
	// A restart that is faster than the detection of the crash is recognized by its boot id.
	again.kill()
	third := mustStart(t, s, 2)
	began := time.Now()
	for _, p := range []*process{a, b} {
		p.expect(2, "restart", func(e Event) bool { return isUp(e) && e.Member.Boot == third.boot })
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("the restart was seen after %v", d)
	}
}

func TestLeavingIsNotDying(t *testing.T) {
	s := testSpec(t, 2)
	a, b := mustStart(t, s, 0), mustStart(t, s, 1)
	a.expect(1, "join", isUp)
	began := time.Now()
	if err := b.m.Leave(deadline(t, patience)); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("leaving took %v", d)
	}
	if e := a.expect(1, "leave", isDown); e.Member.Reason != "it has left" {
		t.Errorf("%+v", e)
	}
}

func TestAnotherSpecIsRefused(t *testing.T) {
	s := testSpec(t, 3)
	a := mustStart(t, s, 0)
	other, err := s.WithAddress("worker", 2, "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := start(t, other, 1, "")
	if status.CodeOf(err) != status.FailedPrecondition {
		t.Fatalf("the start of the other: %v", err)
	}
	for _, part := range []string{"different cluster specs", s.Tasks()[0].Address, s.Tasks()[1].Address, "/job:worker/replica:0/task:2 is at "} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %s", err, part)
		}
	}
	b.kill()
	if text := a.log.String(); !strings.Contains(text, "a process was refused") || !strings.Contains(text, s.Tasks()[1].Address) {
		t.Errorf("log: %s", text)
	}
	if v := a.m.View(); v[1].Health != NeverSeen {
		t.Errorf("%+v", v)
	}
}

func TestSecondProcessOfATaskIsRefused(t *testing.T) {
	s := testSpec(t, 2)
	a := mustStart(t, s, 0)
	_, number, err := spec.SplitAddress(s.Tasks()[0].Address)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	second, err := start(t, s, 0, fmt.Sprintf("127.0.0.2:%d", number))
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("refused after %v", d)
	}
	if status.CodeOf(err) != status.AlreadyExists || !strings.Contains(err.Error(), "the task is alive already as /job:worker/replica:0/task:0 at "+s.Tasks()[0].Address) ||
		!strings.Contains(err.Error(), fmt.Sprintf("boot %016x", a.boot)) || !strings.Contains(err.Error(), fmt.Sprintf("boot %016x", second.boot)) {
		t.Errorf("%v", err)
	}
}

// TestSecondProcessIsToldByOthers checks that a process whose own machine resolves its name to itself learns from a third one that it is
// the second.
func TestSecondProcessIsToldByOthers(t *testing.T) {
	s := testSpec(t, 2)
	m := &Membership{config: Config{Spec: s, Self: s.Tasks()[0], Links: &vouchers{
		self:  &wire.Identity{Task: "/job:worker/replica:0/task:0", Boot: 1},
		found: &wire.Identity{Task: "/job:worker/replica:0/task:0", Boot: 2, Address: "elsewhere"}}}, log: slog.New(slog.DiscardHandler)}
	_, err := m.survey(deadline(t, patience))
	if status.CodeOf(err) != status.AlreadyExists || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("%v", err)
	}
}

// vouchers are links through which this process finds itself, and others find another one.
type vouchers struct{ self, found *wire.Identity }

func (v *vouchers) Identity() *wire.Identity { return v.self }
func (v *vouchers) Greet(context.Context, spec.Task) (*wire.Identity, error) {
	return v.self, nil
}
func (v *vouchers) AskVouch(context.Context, spec.Task, string) (*wire.Identity, error) {
	return v.found, nil
}

// TestSpecsOfOneCluster checks that tasks that write their own addresses differently, and declare only part of the cluster, see each other.
func TestSpecsOfOneCluster(t *testing.T) {
	s := testSpec(t, 4)
	own := func(index int, host string, without ...int) *spec.Spec {
		jobs := map[string]map[int]string{"worker": {}}
		for _, k := range s.Tasks() {
			jobs["worker"][k.Index] = k.Address
		}
		_, number, err := spec.SplitAddress(jobs["worker"][index])
		if err != nil {
			t.Fatal(err)
		}
		jobs["worker"][index] = net.JoinHostPort(host, fmt.Sprint(number))
		for _, i := range without {
			delete(jobs["worker"], i)
		}
		part, err := spec.New(jobs)
		if err != nil {
			t.Fatal(err)
		}
		return part
	}
	specs := []*spec.Spec{own(0, "127.0.0.1"), own(1, "localhost"), own(2, "0.0.0.0", 1), own(3, "localhost", 1, 2)}
	var all []*process
	for i, part := range specs {
		p, err := start(t, part, i, s.Tasks()[i].Address)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	for i, p := range all {
		for _, other := range specs[i].Tasks() {
			if other.Index != i {
				e := p.expect(other.Index, "up", isUp)
				if want := s.Tasks()[other.Index].Address; e.Member.Task.Address != want || e.Member.Boot != all[other.Index].boot || len(e.Member.Devices) != 1 {
					t.Errorf("%d sees %+v", i, e.Member)
				}
			}
		}
		if v := p.m.View(); len(v) != specs[i].Len() {
			t.Errorf("%d sees %v", i, v)
		}
	}
	all[3].kill()
	for _, p := range all[:3] {
		p.expect(3, "down", isDown)
	}
	for i, p := range all {
		if text := p.log.String(); strings.Contains(text, "refused") {
			t.Errorf("the log of %d: %s", i, text)
		}
	}
}

// TestGossipOfStrangersIsRefused checks that nodes that gossip without having greeted anybody are rejected as well.
func TestGossipOfStrangersIsRefused(t *testing.T) {
	s := testSpec(t, 2)
	a := mustStart(t, s, 0)
	good := meta{boot: 5, spec: s.Hash()}.encode("/job:worker/replica:0/task:1")
	for _, stranger := range []struct {
		name string
		meta []byte
		want string
	}{
		{"/job:worker/replica:0/task:1", good, "the cluster spec has that task at " + s.Tasks()[1].Address},
		{"/job:worker/replica:0/task:1", []byte("of another program"), "is not that of a server of this version"},
	} {
		c := memberlist.DefaultLocalConfig()
		c.Name, c.BindAddr, c.BindPort, c.Logger = stranger.name, "127.0.0.1", 0, log.New(io.Discard, "", 0)
		c.AdvertisePort = 0
		c.EnableCompression = false // compressed gossip is not read at all
		d := &delegates{ready: make(chan struct{}, 1)}
		d.meta.Store(&stranger.meta)
		c.Delegate = d
		list, err := memberlist.Create(c)
		if err != nil {
			t.Fatal(err)
		}
		// The push of its view succeeds; only the other side shows that the view was rejected.
		if _, err := list.Join([]string{s.Tasks()[0].Address}); err != nil {
			t.Error(err)
		}
		a.expect(-1, "refusal", func(e Event) bool { return e.Refused != nil && strings.Contains(e.Refused.Error(), stranger.want) })
		if err := list.Shutdown(); err != nil {
			t.Error(err)
		}
	}
	if v := a.m.View(); v[1].Health != NeverSeen {
		t.Errorf("%+v", v)
	}
}

func TestAdmission(t *testing.T) {
	s, err := spec.Parse("ps=10.0.0.1:7000;worker=localhost:7001,10.0.0.3:7002")
	if err != nil {
		t.Fatal(err)
	}
	d := &delegates{spec: s, self: s.Tasks()[0], boot: 1, ready: make(chan struct{}, 1)}
	good := meta{boot: 5, spec: s.Hash()}.encode("")
	written := meta{boot: 5, spec: strings.Repeat("1", 32)}.encode("") // of a task that writes its own address differently
	d.pass("/job:worker/replica:0/task:1", strings.Repeat("1", 32))
	node := func(name, ip string, port uint16, meta []byte) *memberlist.Node {
		return &memberlist.Node{Name: name, Addr: net.ParseIP(ip), Port: port, Meta: meta}
	}
	for _, c := range []struct {
		node *memberlist.Node
		want string
	}{
		{node("/job:worker/replica:0/task:1", "10.0.0.3", 7002, good), ""},
		{node("/job:worker/replica:0/task:0", "127.0.0.1", 7001, good), ""},
		{node("/job:worker/replica:0/task:0", "127.0.0.1", 7002, good), "the cluster spec has that task at localhost:7001"},
		{node("/job:worker/replica:0/task:1", "10.0.0.4", 7002, good), "at 10.0.0.4:7002 away: the cluster spec has that task at 10.0.0.3:7002"},
		{node("/job:x/replica:0/task:1", "10.0.0.4", 7002, good), "the cluster spec has no such task"},
		{node("/job:worker/replica:0/task:1", "10.0.0.3", 7002, nil), "is not that of a server of this version"},
		{node("/job:worker/replica:0/task:1", "10.0.0.3", 7002, meta{spec: strings.Repeat("0", 32)}.encode("")), "its cluster spec is not known yet"},
		{node("/job:worker/replica:0/task:1", "127.0.0.1", 7002, written), ""},
		{node("/job:worker/replica:0/task:1", "127.0.0.1", 7003, written), "the cluster spec has that task at 10.0.0.3:7002"},
		{node("/job:worker/replica:0/task:0", "127.0.0.1", 7001, written), "its cluster spec is not known yet"},
	} {
		err := d.NotifyAlive(c.node)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.node.Name, err, c.want)
		}
		c.node.State = memberlist.StateAlive
		if merge := d.NotifyMerge([]*memberlist.Node{c.node}); (merge == nil) != (err == nil || errors.Is(err, errNotDeclared) || errors.Is(err, errUnknownSpec)) {
			t.Errorf("merge of %s: %v", c.node.Name, merge)
		}
	}
	// The same refusal is reported once a minute, and a delegate never waits for its reader.
	m := &Membership{config: Config{Spec: s}, refused: map[string]time.Time{}, members: map[string]*Member{}}
	now := time.Now()
	refusals, unknown := 0, 0
	for _, c := range d.takeAll() {
		if c.kind == changeUnknown {
			unknown++
			continue
		}
		for range 3 {
			if e, ok := m.apply(c, now); ok && e.Refused != nil {
				refusals++
			}
		}
	}
	if refusals != 4 { // those of the merges have the same texts
		t.Errorf("%d refusals", refusals)
	}
	if unknown != 2 {
		t.Errorf("%d tasks are to be asked for their specs", unknown)
	}
	if _, ok := m.apply(change{kind: changeRefuse, err: d.NotifyMerge([]*memberlist.Node{{Name: s.Tasks()[1].Name(), Port: 1, Meta: good, State: memberlist.StateAlive}})}, now.Add(time.Hour)); !ok || len(m.refused) != 1 {
		t.Errorf("old refusals are kept: %v", m.refused)
	}
}

// TestFloodsOfGossipAreBounded has a stranger announce tasks at addresses that they do not have, and what a task is, again and again: little is kept, few
// refusals are reported, and the last news of each task is not lost.
func TestFloodsOfGossipAreBounded(t *testing.T) {
	s, err := spec.Parse("ps=10.0.0.1:7000;worker=10.0.0.2:7001,10.0.0.3:7002")
	if err != nil {
		t.Fatal(err)
	}
	d := &delegates{spec: s, self: s.Tasks()[0], boot: 1, ready: make(chan struct{}, 1)}
	m := &Membership{config: Config{Spec: s}, refused: map[string]time.Time{}, members: map[string]*Member{}}
	for _, task := range s.Tasks() {
		m.members[task.Name()] = &Member{Task: task}
	}
	const rounds = 20_000
	for i := range rounds {
		for at, task := range s.Tasks()[1:] {
			n := &memberlist.Node{Name: task.Name(), Addr: net.IPv4(11, byte(i>>16), byte(i>>8), byte(i)), Port: 7001 + uint16(at), Meta: meta{boot: uint64(i), spec: s.Hash()}.encode("")}
			if d.NotifyAlive(n) == nil {
				t.Fatal("a task at another address is not refused")
			}
			d.NotifyConflict(&memberlist.Node{Name: task.Name()}, n)
			n.Meta = meta{boot: 1, spec: strings.Repeat("1", 31) + string("0123456789abcdef"[i%16])}.encode("")
			if d.NotifyAlive(n) == nil {
				t.Fatal("a task of an unknown cluster spec is not refused")
			}
			n.Meta = meta{boot: uint64(i), spec: s.Hash()}.encode("")
			d.NotifyUpdate(n)
			d.NotifyLeave(n)
		}
	}
	for at, task := range s.Tasks()[1:] {
		d.NotifyJoin(&memberlist.Node{Name: task.Name(), Meta: meta{boot: rounds + uint64(at), spec: s.Hash()}.encode("")})
	}
	queue, reported := d.takeAll(), 0
	if len(queue) > maxQueued+s.Len() {
		t.Errorf("%d changes wait", len(queue))
	}
	for _, c := range queue {
		if c.kind == changeUnknown {
			continue
		}
		if e, ok := m.apply(c, time.Now()); ok && e.Refused != nil {
			reported++
		}
	}
	for i := range 2 * maxRefused {
		if _, ok := m.apply(change{kind: changeRefuse, err: fmt.Errorf("refusal %d", i)}, time.Now()); ok {
			reported++
		}
	}
	if reported != maxRefused || len(m.refused) > maxRefused {
		t.Errorf("%d refusals are reported, %d remembered", reported, len(m.refused))
	}
	for at, task := range s.Tasks()[1:] {
		if v, _ := m.Member(task.Name()); v.Health != Up || v.Boot != rounds+uint64(at) {
			t.Errorf("%s is taken for %+v", task.Name(), v)
		}
	}
}

func TestMetaFitsWhateverTheDevices(t *testing.T) {
	m := meta{boot: 1 << 63, spec: strings.Repeat("ab", 16), leaving: true}
	task := "/job:worker/replica:0/task:0"
	for i := range 200 {
		m.devices = append(m.devices, device.Attributes{Name: fmt.Sprintf("%s/device:GPU:%d", task, i), Type: "GPU", MemoryLimit: 80 << 30, Incarnation: uint64(i)})
	}
	b := m.encode(task)
	if len(b) > memberlist.MetaMaxSize {
		t.Fatalf("%d bytes", len(b))
	}
	got, err := decodeMeta(task, b)
	if err != nil || got.boot != m.boot || got.spec != m.spec || !got.leaving || len(got.devices) < 20 {
		t.Fatalf("%+v %v", got, err)
	}
	for i, d := range got.devices {
		if d.Name != m.devices[i].Name || d.MemoryLimit != 80<<30 || d.Incarnation != uint64(i) || d.Type != "GPU" {
			t.Errorf("device %d: %v", i, d)
		}
	}
}

func TestMetaSaysWhichDevicesHaveFunctions(t *testing.T) {
	const task = "/job:worker/replica:0/task:0"
	for _, has := range []device.Functions{device.UnknownFunctions, device.NoFunctions, device.HasFunctions} {
		m := meta{boot: 1, spec: strings.Repeat("ab", 16), leaving: true, devices: []device.Attributes{
			{Name: task + "/device:CPU:0", Type: "CPU", Functions: has}, {Name: task + "/device:CPU:1", Type: "CPU", Functions: has},
			{Name: task + "/device:GPU:0", Type: "GPU", Functions: device.NoFunctions}}}
		got, err := decodeMeta(task, m.encode(task))
		if err != nil || !got.leaving || !slices.Equal(got.devices, m.devices) {
			t.Errorf("%d: %+v %v", has, got, err)
		}
	}
}

func FuzzMeta(f *testing.F) {
	f.Add(meta{boot: 3, spec: strings.Repeat("ab", 16), devices: []device.Attributes{{Name: "t/device:CPU:0", Type: "CPU"}}}.encode("t"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta("t", b)
		if err != nil {
			if status.CodeOf(err) != status.InvalidArgument {
				t.Fatal(err)
			}
			return
		}
		if again, err := decodeMeta("t", m.encode("t")); err != nil || again.boot != m.boot || again.spec != m.spec || again.leaving != m.leaving {
			t.Fatalf("%+v, then %+v %v", m, again, err)
		}
	})
}
