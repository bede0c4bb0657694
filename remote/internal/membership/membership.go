package membership

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// Links are the functions of the task's links that the membership needs: to greet a process, and to ask one for its view of another. The
// port must serve them already.
type Links interface {
	Identity() *wire.Identity
	Greet(ctx context.Context, task spec.Task) (*wire.Identity, error)
	AskVouch(ctx context.Context, by spec.Task, of string) (*wire.Identity, error)
}

// Config configures a task's membership.
type Config struct {
	Spec  *spec.Spec
	Self  spec.Task
	Port  Port
	Links Links
	// Events is called for each change, in order, on one goroutine, and must not block. If it is nil, changes are logged.
	Events func(Event)
	// Confirm requires more than that nobody objects: other tasks must be up, and one of them must find this process at its task's address. A
	// process sets it to claim a task that it was not started for by name.
	Confirm bool
	// Keys, each of 16, 24 or 32 bytes, encrypt the gossip: the first is used, all are accepted. Without keys it is not encrypted.
	Keys   [][]byte
	Logger *slog.Logger // nil: slog.Default()

	tune func(*memberlist.Config) // for tests that cannot wait for LAN timing
}

// Health is what gossip believes about the state of a task.
type Health int

// A task was never seen, a process of it is up, or its last process is down.
const (
	NeverSeen Health = iota
	Up
	Down
)

// String returns the health in words.
func (h Health) String() string { return [...]string{"never seen", "up", "down"}[h] }

// Member is what gossip believes about a task.
type Member struct {
	Task   spec.Task
	Health Health
	Boot   uint64    // of the process seen last
	Since  time.Time // of the health, or of this boot
	Reason string    // of Down
	// Leaving is set while the process is up that has announced that it is leaving.
	Leaving bool
	// Devices, as far as they fit into the gossip. They must not be modified.
	Devices []device.Attributes
}

// HasLeft is the reason why a task is down that had announced that it was leaving.
const HasLeft = "it has left"

// Event is a change of what gossip believes.
type Event struct {
	// Member is the task's current state. For a refusal, only Task may be set.
	Member Member
	// Restarted reports that the process was replaced by another one, without a loss in between.
	Restarted bool
	// Refused, if not nil, says why a process was rejected, naming both sides.
	Refused error
}

// Membership is a task's part in the gossip. Its methods are safe for concurrent use.
type Membership struct {
	config    Config
	log       *slog.Logger
	delegates *delegates
	list      *memberlist.Memberlist
	keyring   *memberlist.Keyring // nil without keys
	transport *transport
	ctx       context.Context
	cancel    context.CancelFunc
	work      sync.WaitGroup
	leave     sync.Once
	leaving   atomic.Bool // Leave has begun

	mu      sync.Mutex
	members map[string]*Member
	refused map[string]time.Time // when a refusal was last reported, by its text
	// unknown are the tasks whose cluster specs must be asked for, by name; asking is set while a goroutine does so.
	unknown map[string]spec.Task
	asked   map[passedSpec]time.Time
	asking  bool
}

const (
	streamTimeout = 3 * time.Second
	updateTimeout = 500 * time.Millisecond // to announce that this task leaves
	leaveTimeout  = time.Second            // to leave
	repeatRefusal = time.Minute
	maxRefused    = 256 // refusals that are remembered, and so reported, in that time: a stranger can make up any number of them
)

// Start joins the gossip and the tasks that are up; it keeps looking for absent tasks in the background. It takes at most a second or two,
// even if tasks do not answer. It fails if this process must not be part of the cluster: with FAILED_PRECONDITION if the running tasks have
// another cluster spec, and with ALREADY_EXISTS if a process of this task is already alive. Both errors name both sides.
func Start(ctx context.Context, config Config) (*Membership, error) {
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	now := time.Now()
	id := config.Links.Identity()
	m := &Membership{config: config, log: config.Logger, members: map[string]*Member{}, refused: map[string]time.Time{},
		unknown: map[string]spec.Task{}, asked: map[passedSpec]time.Time{}, delegates: &delegates{spec: config.Spec, self: config.Self, boot: id.GetBoot(), ready: make(chan struct{}, 1)}}
	for _, t := range config.Spec.Tasks() {
		m.members[t.Name()] = &Member{Task: t, Since: now}
	}
	self := m.members[config.Self.Name()]
	if self == nil {
		return nil, status.InvalidArgumentf("%v is not a task of the cluster %v", config.Self, config.Spec)
	}
	self.Health, self.Boot, self.Devices = Up, id.GetBoot(), id.DeviceAttributes()
	present, err := m.survey(ctx)
	if err == nil && ctx.Err() != nil {
		err = status.From(ctx.Err())
	}
	if err != nil {
		return nil, err
	}
	m.announce(false)
	if len(config.Keys) > 0 {
		if m.keyring, err = memberlist.NewKeyring(config.Keys, config.Keys[0]); err != nil {
			return nil, status.InvalidArgumentf("The keys of the gossip: %v", err)
		}
	}
	if m.transport, err = newTransport(ctx, config.Port, config.Spec, config.Self, m.keyring != nil, m.log); err != nil {
		return nil, err
	}
	if m.list, err = memberlist.Create(m.settings()); err != nil {
		if e := m.transport.Shutdown(); e != nil {
			m.log.Debug("shutting the gossip down", "error", e)
		}
		return nil, status.Errorf(status.Internal, "Could not start the gossip of %v: %v", config.Self, err)
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.work.Go(m.dispatch)
	m.join(ctx, present)
	m.work.Go(m.seek)
	return m, nil
}

// announce sets what this node announces about itself.
func (m *Membership) announce(leaving bool) {
	id := m.config.Links.Identity()
	b := meta{boot: id.GetBoot(), spec: m.config.Spec.Hash(), leaving: leaving, devices: id.DeviceAttributes()}.encode(m.config.Self.Name())
	m.delegates.meta.Store(&b)
}

// settings keeps the timing of a LAN: workers saturate their cores, and a more sensitive gossip would mistake a busy task for a dead one.
// Whatever needs to know sooner has a link.
func (m *Membership) settings() *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.Name = m.config.Self.Name()
	c.Transport = m.transport
	c.Delegate, c.Events, c.Alive, c.Merge, c.Conflict = m.delegates, m.delegates, m.delegates, m.delegates, m.delegates
	c.TCPTimeout = streamTimeout
	// Compression takes tables larger than a packet.
	c.EnableCompression = false
	c.DeadNodeReclaimTime = time.Second // a host may come back with another address
	c.Keyring = m.keyring
	c.BindPort = m.transport.number
	c.Logger = m.logger()
	if m.config.tune != nil {
		m.config.tune(c)
	}
	return c
}

// Rekey replaces the keys of an encrypted gossip.
func (m *Membership) Rekey(keys [][]byte) error {
	if m.keyring == nil || len(keys) == 0 {
		return status.Errorf(status.FailedPrecondition, "The encryption of gossip cannot be switched on or off while it runs.")
	}
	for _, k := range keys {
		if err := m.keyring.AddKey(k); err != nil {
			return status.InvalidArgumentf("A key of the gossip: %v", err)
		}
	}
	if err := m.keyring.UseKey(keys[0]); err != nil {
		return status.Internalf("The new key of the gossip: %v", err)
	}
	for _, old := range m.keyring.GetKeys() {
		if slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, old) }) {
			continue
		}
		if err := m.keyring.RemoveKey(old); err != nil {
			return status.Internalf("The old key of the gossip: %v", err)
		}
	}
	return nil
}

// logger returns the logger that memberlist writes to.
func (m *Membership) logger() *log.Logger { return log.New(logWriter{m.log, &m.leaving}, "", 0) }

// logWriter forwards memberlist's lines. What matters in them is also reported as an event. Once the task leaves, memberlist's timers and
// readers meet closed connections: these errors are of interest only for debugging.
type logWriter struct {
	log     *slog.Logger
	leaving *atomic.Bool
}

func (w logWriter) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	level := slog.LevelDebug
	if strings.HasPrefix(text, "[ERR]") && !w.leaving.Load() {
		level = slog.LevelInfo
	}
	// The line is no message of the log: peers choose parts of it, and lines are limited by their messages.
	w.log.Log(context.Background(), level, "gossip", "line", text)
	return len(line), nil
}

// Member returns what gossip believes about a declared task, by its full name; false for any other.
func (m *Membership) Member(task string) (Member, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v := m.members[task]; v != nil {
		return *v, true
	}
	return Member{}, false
}

// View returns what gossip believes about all declared tasks, in the order of the spec.
func (m *Membership) View() []Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Member, 0, len(m.members))
	for _, t := range m.config.Spec.Tasks() {
		all = append(all, *m.members[t.Name()])
	}
	return all
}

// dispatch turns what the delegates learn into the view and events.
func (m *Membership) dispatch() {
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.delegates.ready:
			for _, c := range m.delegates.takeAll() {
				if c.kind == changeUnknown {
					m.ask(c.task, c.meta.spec, time.Now())
					continue
				}
				if e, ok := m.apply(c, time.Now()); ok {
					m.report(e)
				}
			}
		}
	}
}

// apply updates the view; it returns false if nothing has changed.
func (m *Membership) apply(c change, now time.Time) (Event, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.kind == changeRefuse {
		// The same node is rejected with each of its messages.
		text := c.err.Error()
		if last, ok := m.refused[text]; ok && now.Sub(last) < repeatRefusal {
			return Event{}, false
		}
		for text, last := range m.refused {
			if now.Sub(last) >= repeatRefusal {
				delete(m.refused, text)
			}
		}
		if len(m.refused) >= maxRefused {
			return Event{}, false
		}
		m.refused[text] = now
		return Event{Member: Member{Task: c.task}, Refused: c.err}, true
	}
	old := m.members[c.task.Name()]
	next := Member{Task: c.task, Health: Up, Boot: c.meta.boot, Since: now, Devices: c.meta.devices}
	switch {
	case c.kind == changeGone && c.meta.leaving:
		next.Health, next.Reason = Down, HasLeft
	case c.kind == changeGone:
		next.Health, next.Reason = Down, "it does not answer the gossip"
	case c.meta.leaving:
		next.Leaving = true
	}
	if next.Health == old.Health && next.Boot == old.Boot {
		next.Since = old.Since
		if next.Reason == old.Reason && next.Leaving == old.Leaving {
			*old = next
			return Event{}, false
		}
	}
	restarted := next.Health == Up && old.Health == Up && next.Boot != old.Boot
	*old = next
	return Event{Member: next, Restarted: restarted}, true
}

// report passes an event to the owner, or logs it if the owner has no handler.
func (m *Membership) report(e Event) {
	task := e.Member.Task
	switch {
	case m.config.Events != nil:
		m.config.Events(e)
	case e.Refused != nil:
		m.log.Warn("a process was refused", "error", e.Refused)
	case e.Restarted:
		m.log.Info("a task has restarted", "task", task.Name(), "address", task.Address, "boot", fmt.Sprintf("%016x", e.Member.Boot))
	default:
		about := []any{"task", task.Name(), "address", task.Address}
		if e.Member.Reason != "" {
			about = append(about, "reason", e.Member.Reason)
		}
		level := slog.LevelInfo
		if e.Member.Health == Down && e.Member.Reason != HasLeft {
			level = slog.LevelWarn
		}
		state := e.Member.Health.String()
		if e.Member.Leaving {
			state = "leaving"
		}
		m.log.Log(context.Background(), level, "a task is "+state, about...)
	}
}

// Leave announces that this task leaves on purpose, and stops the gossip. It takes at most two seconds, and less if ctx ends earlier: the
// announcement is then cut short.
func (m *Membership) Leave(ctx context.Context) error {
	var err error
	m.leave.Do(func() {
		m.leaving.Store(true)
		m.cancel()
		m.await(ctx)
		m.announce(true)
		// Both are best effort: tasks that miss them will find this task gone.
		if d := within(ctx, updateTimeout); d > 0 {
			if e := m.list.UpdateNode(d); e != nil {
				m.log.Debug("not every task was notified that this task leaves", "error", e)
			}
		}
		if d := within(ctx, leaveTimeout); d > 0 {
			if e := m.list.Leave(d); e != nil {
				m.log.Debug("not every task was notified that this task has left", "error", e)
			}
		}
		err = m.list.Shutdown()
	})
	return err
}

// await waits for the goroutines, and for view exchanges that others started with this task: a task in the middle of one may have learned
// of this task before this task has learned of it, and could not be notified that this one leaves. Either may be with a frozen task, so the
// wait is bounded.
func (m *Membership) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		m.work.Wait()
		close(ended)
	}()
	for _, over := range []<-chan struct{}{ended, m.transport.taken.over()} {
		select {
		case <-over:
		case <-ctx.Done():
		}
	}
}

// within returns the shorter of d and the time left in ctx; 0 if none is left.
func within(ctx context.Context, d time.Duration) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	if t, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(t))
	}
	return max(d, 0)
}
