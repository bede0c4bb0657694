package placement

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/actors/wire"
)

const lease, lead = 3500 * time.Millisecond, 1500 * time.Millisecond

// world is a cluster in simulated time: tasks whose clocks differ, and a network that delays, loses and parts.
type world struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Duration
	tasks   []*task
	cut     map[[2]string]bool
	events  []event // by time
	slow    time.Duration
	history []string
	ids     []string
	boots   uint64
	begun   int // identities that began, in all
}

type event struct {
	at time.Duration
	do func()
}

// task is a process of a task, and the virtual actors that it holds.
type task struct {
	name   string
	boot   uint64
	core   *Core
	born   time.Duration
	rate   float64
	holds  map[string]bool   // true for those that are to end
	latest Epoch             // of the view that it prepares
	frozen time.Duration     // until when
	inbox  []func()          // what came while it was frozen
	seen   map[string]uint64 // the latest process of each task that it has heard
}

func (w *world) after(d time.Duration, do func()) {
	e := event{w.now + d, do}
	i, _ := slices.BinarySearchFunc(w.events, e, func(a, b event) int {
		if a.at <= b.at {
			return -1
		}
		return 1
	})
	w.events = slices.Insert(w.events, i, e)
}

func (w *world) log(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf("%8.3fs ", w.now.Seconds())+fmt.Sprintf(format, args...))
}

// local returns the time of a process.
func (w *world) local(k *task) time.Duration {
	return time.Duration(float64(w.now-k.born) * k.rate)
}

func newWorld(t *testing.T, seed uint64, tasks, hosts int) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1)), cut: map[[2]string]bool{}, slow: 20 * time.Millisecond}
	for i := range 12 {
		w.ids = append(w.ids, fmt.Sprint("id", i))
	}
	var names []string
	for i := range tasks {
		names = append(names, fmt.Sprint("t", i))
	}
	for i, name := range names {
		k := &task{name: name}
		w.tasks = append(w.tasks, k)
		w.start(k, names, i < hosts)
	}
	return w
}

// start starts a task's process, or another one.
func (w *world) start(k *task, names []string, hosts bool) {
	w.boots++
	k.boot, k.born, k.holds, k.frozen, k.inbox, k.seen = w.boots, w.now, map[string]bool{}, 0, nil, map[string]uint64{}
	k.rate = 0.97 + 0.06*w.random.Float64()
	k.core = New(Config{Self: k.name, Tasks: names, Boot: k.boot, Hosts: hosts, Lease: lease, Lead: lead, Term: uint64(w.now / time.Microsecond)})
	w.tick(k, k.boot)
}

func (w *world) tick(k *task, boot uint64) {
	if k.boot != boot {
		return
	}
	w.handle(k, boot, func() { k.core.Tick(w.local(k)) })
	w.after(k.core.Every(), func() { w.tick(k, boot) })
}

// handle lets a process do something, now or when it runs again.
func (w *world) handle(k *task, boot uint64, do func()) {
	if k.boot != boot {
		return
	}
	if w.now < k.frozen {
		k.inbox = append(k.inbox, do)
		return
	}
	do()
	for _, e := range k.core.Effects() {
		switch e := e.(type) {
		case Send:
			w.send(k, e.To, e.Message)
		case Prepare:
			w.log("%s prepares %v", k.name, e.View)
			d := time.Duration(0)
			if w.random.IntN(3) == 0 {
				d = time.Duration(w.random.Int64N(int64(time.Second)))
			}
			k.latest = e.View.Epoch
			var doomed []string
			for id, ends := range k.holds {
				if !ends && NewOwners(e.View.Members).Owner(id) != k.name {
					doomed = append(doomed, id)
					k.holds[id] = true
				}
			}
			w.after(d, func() {
				w.handle(k, boot, func() {
					for _, id := range doomed {
						delete(k.holds, id)
					}
					for _, ends := range k.holds {
						if ends {
							return
						}
					}
					k.core.Kept(w.local(k), k.latest)
				})
			})
		case Activate:
			w.log("%s activates %v", k.name, e.View)
			for _, id := range w.ids {
				if NewOwners(e.View.Members).Owner(id) != k.name {
					continue
				}
				if _, holds := k.holds[id]; !holds {
					k.holds[id] = false
					w.begun++
				}
			}
		case Expire:
			w.log("%s expires", k.name)
			k.holds = map[string]bool{}
		}
	}
}

func (w *world) send(from *task, to string, m *wire.Placement) {
	boot := from.boot
	d := time.Duration(w.random.Int64N(int64(w.slow)))
	w.after(d, func() {
		if w.cut[[2]string{from.name, to}] {
			return
		}
		for _, k := range w.tasks {
			if k.name == to {
				w.handle(k, k.boot, func() {
					if k.seen[from.name] <= boot { // as a connection orders them
						k.seen[from.name] = boot
						k.core.Receive(w.local(k), from.name, boot, m)
					}
				})
			}
		}
	})
}

// run lets time pass, and checks at each event that no identity is held twice by tasks that may act.
func (w *world) run(d time.Duration) {
	end := w.now + d
	for len(w.events) > 0 && w.events[0].at <= end {
		e := w.events[0]
		w.events = w.events[1:]
		w.now = max(w.now, e.at)
		e.do()
		w.check()
	}
	w.now = end
}

func (w *world) acts(k *task) bool {
	return w.now >= k.frozen && w.local(k) < k.core.Until()
}

func (w *world) check() {
	by := map[string]string{}
	for _, k := range w.tasks {
		if !w.acts(k) {
			continue
		}
		for id := range k.holds {
			if other, twice := by[id]; twice {
				w.t.Fatalf("%s and %s both act as %s at %v:\n%s", other, k.name, id, w.now, strings.Join(w.history, "\n"))
			}
			by[id] = k.name
		}
	}
}

// settled reports an error unless each identity has one holder, and all hosts are members.
func (w *world) settled(hosts int) error {
	for _, k := range w.tasks[:hosts] {
		if v, ok := k.core.View(); !ok || len(v.Members) != hosts || !v.Active {
			return fmt.Errorf("%s knows the view %v, which has not %d members", k.name, v, hosts)
		}
	}
	for _, id := range w.ids {
		var holders []string
		for _, k := range w.tasks {
			if _, holds := k.holds[id]; holds && w.acts(k) {
				holders = append(holders, k.name)
			}
		}
		if len(holders) != 1 {
			return fmt.Errorf("%s lives on %v", id, holders)
		}
	}
	return nil
}

// disturb does one random thing to the cluster.
func (w *world) disturb(names []string, hosts int) {
	i := w.random.IntN(len(w.tasks))
	k := w.tasks[i]
	switch w.random.IntN(10) {
	case 0:
		w.log("%s dies and starts anew", k.name)
		w.start(k, names, i < hosts)
	case 1:
		d := time.Duration(w.random.Int64N(int64(8 * time.Second)))
		w.log("%s freezes for %v", k.name, d)
		k.frozen = w.now + d
		boot := k.boot
		w.after(d, func() {
			if k.boot != boot || w.now < k.frozen {
				return
			}
			inbox := k.inbox
			k.inbox = nil
			for _, do := range inbox {
				w.handle(k, boot, do)
			}
		})
	case 2, 3: // part the tasks in two, perhaps in one direction only
		side := map[string]bool{}
		for _, n := range names {
			side[n] = w.random.IntN(2) == 0
		}
		oneWay := w.random.IntN(3) == 0
		for _, a := range names {
			for _, b := range names {
				if side[a] != side[b] && (!oneWay || side[a]) {
					w.cut[[2]string{a, b}] = true
				}
			}
		}
		w.log("the network parts: %v one way %v", side, oneWay)
	case 4:
		a, b := names[w.random.IntN(len(names))], names[w.random.IntN(len(names))]
		w.log("%s and %s cannot talk", a, b)
		w.cut[[2]string{a, b}], w.cut[[2]string{b, a}] = true, true
	case 5:
		w.log("the network heals")
		w.cut = map[[2]string]bool{}
	case 6:
		w.slow = time.Duration(1 + w.random.Int64N(int64(2*time.Second)))
		w.log("messages take up to %v", w.slow)
	case 7:
		w.slow = 20 * time.Millisecond
	case 8, 9: // any messages may be lost
		w.cut = map[[2]string]bool{}
		for _, a := range names {
			for _, b := range names {
				if a != b && w.random.IntN(3) == 0 {
					w.cut[[2]string{a, b}] = true
				}
			}
		}
		w.log("only some tasks reach others: %v", w.cut)
	}
}

// TestOneActsAtATime drives clusters with random faults, and checks that no identity is held by two tasks that may act, and that each has one
// holder when the faults are over.
func TestOneActsAtATime(t *testing.T) {
	schedules := 1000
	if n, err := strconv.Atoi(os.Getenv("TROUPE_SCHEDULES")); err == nil {
		schedules = n
	}
	begun := 0
	for seed := range uint64(schedules) {
		tasks := 1 + int(seed%6)
		hosts := 1 + int(seed/6)%tasks
		w := newWorld(t, seed, tasks, hosts)
		names := w.tasks[0].core.config.Tasks
		pace := []time.Duration{time.Second, 3 * time.Second, 8 * time.Second}[w.random.IntN(3)]
		for range 25 {
			w.run(time.Duration(w.random.Int64N(int64(pace))))
			w.disturb(names, hosts)
		}
		w.log("all faults end")
		w.cut, w.slow = map[[2]string]bool{}, 20*time.Millisecond
		w.run(8 * time.Second) // for those that are frozen
		w.run(4 * lease)
		if err := w.settled(hosts); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(w.history, "\n"))
		}
		begun += w.begun
	}
	if begun < 30*schedules {
		t.Errorf("only %d identities began: the schedules disturb nothing", begun)
	}
	t.Logf("%d schedules, %d identities began", schedules, begun)
}
